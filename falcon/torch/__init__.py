"""Linear layers of PyTorch on falcon; imported only when it is asked for.

ops.py: `linear` and `matmul`, with gradients, registered as operators of torch.
"""

from .ops import linear, matmul

__all__ = ["linear", "matmul"]
