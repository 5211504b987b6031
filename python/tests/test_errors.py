# SPDX-License-Identifier: Apache-2.0
"""What is wrong is refused by an exception that says so in one sentence."""

import re

import backpass
import numpy as np
import pytest

X = np.zeros((1, 1, 6, 6), np.float32)
Y = np.zeros((1, 1, 3, 3), np.float32)
READ_ONLY = np.zeros((1, 1, 6, 6), np.float32)
READ_ONLY.flags.writeable = False
FIELDS = np.zeros(4, [("a", "f4"), ("b", "i2")])["a"]  # 6 bytes apart

REFUSALS = [
    # The library's own, by their class.
    (ValueError, "max_pool_grad: dy: axis 2: size is 4, expected 1 to 3", lambda: backpass.max_pool_grad(
        np.zeros((1, 1, 4, 3), np.float32), x=X, window=2)),
    (ValueError, "max_pool: x: rank is 2, expected 3 to 5", lambda: backpass.max_pool(X[0, 0], (2, 2))),
    (ValueError, "relu: x: rank is 9, expected 1 to 8", lambda: backpass.relu(np.zeros((1,) * 9, np.float32))),
    (NotImplementedError, "relu: x: ", lambda: backpass.relu(np.zeros(3, np.uint8))),
    (NotImplementedError, "resample_grad: dx: ", lambda: backpass.resample_grad(np.zeros(3, np.int8), x_shape=(3,))),
    (ValueError, "relu_grad: dy: ", lambda: backpass.relu_grad(X, Y)),
    (ValueError, "relu_grad: dy: ", lambda: backpass.relu_grad(X, X.astype(np.float64))),
    (ValueError, "relu: y: ", lambda: backpass.relu(X, out=Y)),
    (ValueError, "slice: strides: ", lambda: backpass.slice(X, 0, 1, 0)),
    (ValueError, "slice: ", lambda: backpass.slice(X, 5, 2)),
    (ValueError, "resample: scales: ", lambda: backpass.resample(X, shape=X.shape, scales=-1)),
    (ValueError, "resample: scales: is null although input_offsets is given",
     lambda: backpass.resample(X, shape=X.shape, input_offsets=0)),
    (ValueError, "max_pool: y: shares memory with x", lambda: backpass.max_pool(X, 1, out=X)),
    (ValueError, "relu: x: the address is 1 byte past a multiple of 4", lambda: backpass.relu(
        np.zeros(9, np.uint8)[1:].view(np.float32))),
    (ValueError, "max_pool_grad: winners: ", lambda: backpass.max_pool_grad(
        Y, winners=np.full(Y.shape, 99, np.uint8), x_shape=X.shape, window=2)),
    (ValueError, "options: threads: is -1", lambda: backpass.relu(X, threads=-1)),
    # Ours, where the library is not reached.
    (TypeError, "list: is no array, expected one of NumPy, PyTorch, CuPy, JAX, or with DLPack or "
                "__cuda_array_interface__", lambda: backpass.relu([1.0])),
    (TypeError, "memoryview: is no array", lambda: backpass.relu_grad(X, memoryview(X))),
    (NotImplementedError, "MaskedArray: has a mask, expected an array without one",
     lambda: backpass.relu(np.ma.masked_less(X, 1))),
    (NotImplementedError, "relu: x: type is complex64, expected one of float64, ", lambda: backpass.relu(
        np.zeros(3, np.complex64))),
    (NotImplementedError, "relu: x: type is float32 of the other byte order", lambda: backpass.relu(
        np.zeros(3, ">f4"))),
    (ValueError, "relu: x: strides of (6,) bytes are no multiples of the element's 4 bytes",
     lambda: backpass.relu(FIELDS)),
    (ValueError, "relu: out: the array is read-only", lambda: backpass.relu(X, out=READ_ONLY)),
    (ValueError, "max_pool: out: has 1 array, expected 2", lambda: backpass.max_pool(X, 2, winners="flat", out=Y)),
    (ValueError, "max_pool: window: has 3 entries, expected 2", lambda: backpass.max_pool(X, (2, 2, 2))),
    (TypeError, "max_pool: window: is 2.5, expected a number or one for each axis", lambda: backpass.max_pool(X, 2.5)),
    (ValueError, "max_pool: strides: is (18446744073709551616, 1), expected numbers of 64 bits",
     lambda: backpass.max_pool(X, 2, strides=(2**64, 1))),
    (ValueError, "max_pool: winners: is 'plane', expected 'compact' or 'flat'",
     lambda: backpass.max_pool(X, 2, winners="plane")),
    (ValueError, "relu_grad: nan: is 'keep', expected 'zero' or 'pass'", lambda: backpass.relu_grad(X, X, nan="keep")),
    (ValueError, "max_pool_grad: expected either x or winners", lambda: backpass.max_pool_grad(Y, window=2)),
    (ValueError, "max_pool_grad: x_shape: is (1, 1, 6, 7), expected (1, 1, 6, 6) as x has it, or none",
     lambda: backpass.max_pool_grad(Y, x=X, x_shape=(1, 1, 6, 7), window=2)),
    (TypeError, "max_pool_grad: x_shape: is missing",
     lambda: backpass.max_pool_grad(Y, winners=Y.astype(np.uint8), window=2)),
    (ValueError, "resample_grad: x_shape: is (-1,), expected no negative size",
     lambda: backpass.resample_grad(np.zeros(2), x_shape=(-1,))),
    (ValueError, "resample: shape: is missing, and so are scales or tables that would give it",
     lambda: backpass.resample(X)),
    (ValueError, "resample: scales: axis 2: 0.1 times the size 6 leaves no output",
     lambda: backpass.resample(X, scales=(1, 1, 0.1, 1))),
    (ValueError, "resample: tables: has 1 entry, expected 4", lambda: backpass.resample(X, tables=[None])),
    (ValueError, "resample: tables: axis 0: count: has 1 entry, expected 2",
     lambda: backpass.resample(np.zeros(2), tables=[([0, 1], [1], [1.0, 1.0])])),
]  # fmt: skip


@pytest.mark.parametrize("exception, text, call", REFUSALS, ids=[text for _, text, _ in REFUSALS])
def test_refusal(exception, text, call):
    for _ in range(2):  # what was refused once is not kept
        with pytest.raises(exception, match="^" + re.escape(text)) as refusal:
            call()
        assert refusal.type is exception
        assert "\n" not in str(refusal.value)


def test_a_wrong_winner_is_reported_with_dx_written():
    dx = np.full(X.shape, 7, np.float32)
    winners = np.zeros(Y.shape, np.uint8)
    winners[0, 0, 0, 0] = 99
    with pytest.raises(ValueError, match="^max_pool_grad: winners: "):
        backpass.max_pool_grad(Y + 1, winners=winners, x_shape=X.shape, window=2, out=dx)
    assert dx.sum() == 8


def test_an_uint32_winner_of_a_huge_window_has_to_be_named():
    x = np.zeros((1, 1, 256, 257), np.float32)
    y, winners = backpass.max_pool(x, (256, 257), winners="compact")
    with pytest.raises(ValueError, match="^max_pool_grad: winners_kind: is missing"):
        backpass.max_pool_grad(y, winners=winners, x_shape=x.shape, window=(256, 257))
