"""Linear layers of PyTorch on falcon; imported only when it is asked for.

ops.py: `linear` and `matmul`, with gradients, registered as operators of torch.
threads.py: torch's threads, on which products run.
stock.py: which products on a GPU are torch's own.
operands.py: which tensors falcon takes, and what else would see a call.
packed.py: panels of a layer's weight, and the operator that multiplies by them.
layers.py: `FalconLinear`.
times.py: times of calls, on a GPU too.
forward.py: what a whole forward pass gains.
report.py: `Report`.
config.py: `LinearConfig`.
convert.py: `convert_`, `revert_`: the linear layers of a model on falcon, and back.

>>> import torch, falcon
>>> x, w = torch.ones(20, 300), torch.ones(400, 300)
>>> bool((falcon.torch.linear(x, w) == 300).all())
True
"""

from importlib.util import find_spec

if find_spec("torch") is None:
    raise ModuleNotFoundError("falcon.torch needs PyTorch: pip install torch", name="torch")

from .config import LinearConfig
from .convert import convert_, revert_
from .forward import Forward
from .layers import FalconLinear
from .ops import linear, matmul
from .report import Report

__all__ = [
    "FalconLinear",
    "Forward",
    "LinearConfig",
    "Report",
    "convert_",
    "linear",
    "matmul",
    "revert_",
]
