# SPDX-License-Identifier: Apache-2.0
"""Backward-pass operators of neural networks and their forwards, with the same bits on every device.

Arrays of NumPy, PyTorch, CuPy and JAX, and any other with DLPack or `__cuda_array_interface__`, come in without a copy;
the result is of the same kind, on the same device and the current stream, in the memory order of the input.

>>> import backpass, numpy as np
>>> backpass.relu_grad(np.array([-1.0, 2.0]), np.array([5.0, 7.0]))
array([0., 7.])
"""

from ._library import version
from ._operators import (
    max_pool,
    max_pool_grad,
    relu,
    relu_grad,
    resample,
    resample_grad,
    slice,
    slice_grad,
)
from ._plans import explain

__all__ = [
    "explain",
    "max_pool",
    "max_pool_grad",
    "relu",
    "relu_grad",
    "resample",
    "resample_grad",
    "slice",
    "slice_grad",
]
__version__ = version()
