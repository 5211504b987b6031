# SPDX-License-Identifier: Apache-2.0
"""PyTorch tensors on the CPU: no copy in, tensors out, in the same memory format."""

import backpass
import numpy as np
import pytest
from support import numbers

torch = pytest.importorskip("torch", reason="PyTorch is not installed (make test-full installs it)")

TYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
NAMED = dict(window=3, strides=2, start_padding=1, end_padding=1)


def tensor(shape, dtype=torch.float32, seed=0):
    return torch.from_numpy(numbers(shape, np.float64, seed)).to(dtype)


def same_bits(found, expected):
    assert found.dtype == expected.dtype and found.shape == expected.shape
    integer = {8: torch.int64, 4: torch.int32, 2: torch.int16}[found.element_size()]
    return torch.equal(found.contiguous().view(integer), expected.contiguous().view(integer))


@pytest.mark.parametrize("dtype", TYPES)
def test_pytorchs_results(dtype):
    x = tensor((2, 3, 9, 8), dtype)
    wide = x.float()
    assert same_bits(backpass.relu(x), torch.relu(x))
    assert same_bits(backpass.max_pool(x, **NAMED), torch.nn.functional.max_pool2d(wide, 3, 2, 1).to(dtype))
    nearest = torch.nn.functional.interpolate(wide, scale_factor=2, mode="nearest").to(dtype)
    assert same_bits(
        backpass.resample(x, scales=(1, 1, 2, 2), mode="nearest", convention="asymmetric", rounding="decreasing"),
        nearest,
    )
    assert same_bits(backpass.slice(x, 1, (1, 2, 5, 4)), x[1:2, 1:3, 1:6, 1:5])


def test_the_gradient_of_pytorch():
    x = tensor((2, 3, 9, 8)).requires_grad_()
    y = torch.nn.functional.max_pool2d(x, 3, 2, 1)
    dy = tensor(y.shape, seed=1)
    y.backward(dy)
    dx = backpass.max_pool_grad(dy, x=x.detach(), **NAMED)
    assert same_bits(dx, x.grad)


def test_nothing_is_copied(bound):
    whole = tensor((2, 4, 10, 10))
    for x in whole, whole[:, ::2, 1:, 3:], whole.permute(0, 2, 3, 1), whole.to(memory_format=torch.channels_last):
        y = backpass.relu(x)
        assert bound == [x.data_ptr(), y.data_ptr()]
        assert torch.equal(y, torch.relu(x))
    out = torch.empty(2, 4, 5, 5)
    assert backpass.max_pool(whole, 2, out=out) is out
    assert bound == [whole.data_ptr(), out.data_ptr()]


def test_channels_last_stays_so():
    x = tensor((2, 3, 8, 8)).to(memory_format=torch.channels_last)
    y, winners = backpass.max_pool(x, 2, winners="compact")
    dx = backpass.max_pool_grad(y, winners=winners, x_shape=x.shape, window=2)
    for result in y, winners, dx, backpass.resample(x, shape=(2, 3, 5, 5)):
        assert result.is_contiguous(memory_format=torch.channels_last)
    assert winners.dtype == torch.uint8


def test_broadcast_empty_and_without_axes():
    x = tensor((3, 1)).expand(2, 3, 4)
    assert torch.equal(backpass.relu(x), torch.relu(x))
    assert backpass.relu(torch.empty(0, 3)).shape == (0, 3)
    assert backpass.relu(torch.tensor(-1.0)).shape == ()


def test_what_torch_would_not_export_is_refused():
    x = tensor((2, 2)).requires_grad_()
    with pytest.raises(ValueError, match=r"^relu: x: the tensor requires grad"):
        backpass.relu(x)
    with torch.no_grad():
        assert torch.equal(backpass.relu(x), torch.relu(x))
    with pytest.raises(ValueError, match=r"^relu: x: the tensor is a lazy negation"):
        backpass.relu(torch.ones(2, dtype=torch.complex64).conj().imag)
    with pytest.raises(
        NotImplementedError, match=r"^relu: x: the tensor is on meta, expected the CPU or a CUDA device$"
    ):
        backpass.relu(torch.empty(3, device="meta"))
    with pytest.raises(NotImplementedError, match=r"^relu: x: type is bool, "):
        backpass.relu(torch.ones(3, dtype=torch.bool))


def test_kinds_are_not_mixed():
    with pytest.raises(TypeError, match=r"^relu_grad: dy: is of type ndarray, expected Tensor as x is$"):
        backpass.relu_grad(tensor((2, 2)), np.zeros((2, 2), np.float32))


def test_a_parameter_is_a_tensor():
    weight = torch.nn.Parameter(tensor((2, 2)), requires_grad=False)
    assert type(backpass.relu(weight)) is torch.Tensor
