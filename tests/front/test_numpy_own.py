"""NumPy's own tests of np.matmul, of falcon.matmul."""

from importlib import import_module

import numpy as np
import pytest

import falcon

_CORE = "numpy._core" if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else "numpy.core"
try:
    MatmulCommon = import_module(f"{_CORE}.tests.test_multiarray").MatmulCommon
except ImportError as error:
    pytest.skip(f"NumPy's tests are not installed: {error}", allow_module_level=True)


class TestMatmul(MatmulCommon):
    matmul = staticmethod(falcon.matmul)
