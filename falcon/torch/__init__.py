"""Linear layers of PyTorch on falcon; imported only when it is asked for.

ops.py: `linear` and `matmul`, with gradients, registered as operators of torch.

>>> import torch, falcon
>>> x, w = torch.ones(20, 300), torch.ones(400, 300)
>>> bool((falcon.torch.linear(x, w) == 300).all())
True
"""

from .ops import linear, matmul

__all__ = ["linear", "matmul"]
