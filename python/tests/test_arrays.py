# SPDX-License-Identifier: Apache-2.0
"""Arrays of every shape and order in memory: what goes in is not copied, what comes out is laid out alike."""

import backpass
import ml_dtypes
import numpy as np
import pytest
from backpass import _arrays
from support import assert_same_bits, layouts, numbers

X_SHAPE = (2, 3, 4, 6)


def address(x):
    return x.__array_interface__["data"][0]


# ---- No copies -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", layouts(np.zeros(X_SHAPE)))
def test_nothing_is_copied(bound, layout):
    x, dy = (layouts(numbers(X_SHAPE, np.float32, seed))[layout] for seed in (0, 1))
    dx = backpass.relu_grad(x, dy)
    assert bound == [address(x), address(dy), address(dx)]
    y, winners = backpass.max_pool(x, 2, winners="compact")
    assert bound == [address(x), address(y), address(winners)]
    out = np.empty(X_SHAPE, np.float32)
    assert backpass.max_pool_grad(y, winners=winners, x_shape=X_SHAPE, window=2, out=out) is out
    assert bound == [0, address(y), address(winners), address(out)]


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_the_address_is_the_one_that_numpy_tells(dtype):
    kind = _arrays.KINDS[np.ndarray]
    whole = np.zeros((5, 4), dtype)
    for x in whole, whole[1:, 2:], whole[::-1, ::-1], np.zeros((), dtype), np.broadcast_to(whole, (3, 5, 4)):
        assert kind.pointer(x) == address(x)


# ---- Memory order ----------------------------------------------------------------------------------------


def order(x):
    return _arrays.memory_order(_arrays.KINDS[np.ndarray].view((x.dtype, x.shape, x.strides)))


@pytest.mark.parametrize("layout", layouts(np.zeros(X_SHAPE)))
def test_results_keep_the_memory_order(layout):
    x = layouts(numbers(X_SHAPE, np.float32))[layout]
    y, winners = backpass.max_pool(x, 2, winners="flat")
    for result in (
        y,
        winners,
        backpass.relu(x),
        backpass.max_pool_grad(y, x=x, window=2),
        backpass.resample(x, scales=2),
        backpass.resample_grad(x, x_shape=(2, 3, 8, 9)),
        backpass.slice(x, 0, (2, 2, 3, 4)),
        backpass.slice_grad(y, x_shape=X_SHAPE, offsets=0, sizes=y.shape),
    ):
        assert order(result) == order(x)
        assert abs(np.array(result.strides)).min() == result.itemsize  # and are packed


def test_channels_last_stays_so():
    x = np.zeros((2, 8, 8, 3), np.float32).transpose(0, 3, 1, 2)
    y = backpass.max_pool(x, 2)
    assert y.transpose(0, 2, 3, 1).flags.c_contiguous


# ---- Broadcast, empty and 0-d arrays ---------------------------------------------------------------------


def test_broadcast_inputs():
    x, dy = np.broadcast_to(numbers((3, 1, 6), np.float32), X_SHAPE), np.broadcast_to(np.float32(1), X_SHAPE)
    dx = backpass.relu_grad(x, dy)
    assert dx.flags.c_contiguous
    assert_same_bits(dx, backpass.relu_grad(x.copy(), dy.copy()))
    assert_same_bits(backpass.max_pool(x, 2), backpass.max_pool(x.copy(), 2))


def test_empty_arrays():
    nothing = np.empty((0, 3, 4, 4), np.float32)
    assert backpass.relu(nothing).shape == nothing.shape
    assert backpass.max_pool(nothing, 2).shape == (0, 3, 2, 2)
    assert backpass.resample(nothing, shape=(0, 3, 8, 8)).shape == (0, 3, 8, 8)
    assert backpass.slice(nothing, 0, (0, 3, 4, 4)).shape == nothing.shape
    dx = backpass.resample_grad(np.empty((2, 0), np.float32), x_shape=(2, 3))
    assert_same_bits(dx, np.zeros((2, 3), np.float32))
    with pytest.raises(ValueError, match="^resample: "):
        backpass.resample(np.empty((0,), np.float32), shape=(3,))


def test_arrays_without_axes_are_one_element():
    x = np.array(-2.5, np.float32)
    assert_same_bits(backpass.relu(x), np.array(0, np.float32))
    assert_same_bits(backpass.relu_grad(np.array(1, np.float32), x), x)
    assert_same_bits(backpass.resample(x, shape=(3,)), np.full(3, -2.5, np.float32))
    assert_same_bits(backpass.resample_grad(np.ones(3, np.float32), x_shape=()), np.array([3], np.float32))
    assert_same_bits(backpass.slice(x, 0, 1), x.reshape(1))


def test_rank_8():
    x = numbers((1, 2, 1, 3, 1, 2, 1, 2), np.float32)
    assert_same_bits(backpass.relu(x), np.maximum(x, 0))


# ---- out= ------------------------------------------------------------------------------------------------


def test_out_is_filled_and_returned():
    x = numbers(X_SHAPE, np.float32)
    y, winners = np.empty((2, 3, 2, 3), np.float32), np.empty((2, 3, 2, 3), np.int32)
    result = backpass.max_pool(x, 2, winners="flat", out=(y, winners))
    assert result[0] is y and result[1] is winners
    assert_same_bits(y, backpass.max_pool(x, 2))
    every_second = np.zeros((2, 3, 4, 12), np.float32)
    assert_same_bits(backpass.relu(x, out=every_second[..., ::2]), np.maximum(x, 0))
    assert not every_second[..., 1::2].any()


def test_out_may_be_the_input_of_relu():
    x = numbers(X_SHAPE, np.float32)
    expected = np.maximum(x, 0)
    assert backpass.relu(x, out=x) is x
    assert_same_bits(x, expected)


def test_out_decides_the_shape_that_is_left_open():
    x = numbers((1, 1, 7), np.float32)
    assert backpass.max_pool(x, 2, out=np.empty((1, 1, 4), np.float32)).shape == (1, 1, 4)
    assert backpass.resample(x, out=np.empty((1, 1, 9), np.float32)).shape == (1, 1, 9)
    with pytest.raises(ValueError, match=r"^resample: out: has shape \(1, 1, 9\), expected \(1, 1, 8\)$"):
        backpass.resample(x, shape=(1, 1, 8), out=np.empty((1, 1, 9), np.float32))


def test_subclasses_are_arrays():
    class Named(np.ndarray):
        pass

    x = numbers(X_SHAPE, np.float32)
    assert_same_bits(backpass.relu(x.view(Named)), np.maximum(x, 0))
