# SPDX-License-Identifier: Apache-2.0
"""Every operator: against the C++ reference to the bit, in every type and layout, and against NumPy's own words."""

import itertools
import math
from fractions import Fraction

import backpass
import numpy as np
import pytest
from support import FLOATS, INTEGERS, UNSIGNED, assert_same_bits, layouts, name_of, numbers

POOLINGS = {
    "2x2": dict(window=2),
    "3x3 overlapping": dict(window=3, strides=2, start_padding=1, end_padding=1),
    "dilated": dict(window=(2, 3), strides=(1, 2), dilations=(3, 2), end_padding=(1, 2)),
}
RESAMPLINGS = {
    "twice": ((2, 3, 14, 18), {}),
    "odd": ((2, 3, 5, 20), {}),
    "corners": ((2, 3, 13, 17), dict(convention="align-corners")),
    "nearest": ((2, 3, 11, 4), dict(mode="nearest", convention="asymmetric", rounding="decreasing")),
    "scales": ((2, 3, 9, 13), dict(scales=(1, 1, 1.3, 1.5), input_offsets=0.25, output_offsets=-0.5)),
    "every axis": ((3, 2, 6, 10), dict(mode="nearest", rounding="increasing")),
}
SLICES = {
    "window": dict(offsets=(0, 1, 2, 3), sizes=(2, 2, 4, 5)),
    "strides": dict(offsets=(0, 0, 1, 0), sizes=(2, 3, 6, 9), strides=(1, 2, 3, -2)),
}
X_SHAPE = (2, 3, 7, 9)


def cases(types, problems):
    """Every problem in every type and layout, named."""
    return [
        pytest.param(dtype, problem, layout, id=f"{name_of(dtype)}-{problem}-{layout}")
        for dtype, problem, layout in itertools.product(types, problems, layouts(np.zeros(X_SHAPE)))
    ]


def arrays(dtype, layout, *shapes):
    return [layouts(numbers(shape, dtype, seed))[layout] for seed, shape in enumerate(shapes)]


# ---- Against the reference -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype, nan, layout", cases(FLOATS + INTEGERS, ["zero", "pass"]))
def test_relu(reference, dtype, nan, layout):
    x, dy = arrays(dtype, layout, X_SHAPE, X_SHAPE)
    if x.dtype.kind not in "iu":
        x[0, 0, 0, :4] = np.nan, np.inf, -np.inf, -0.0
        dy[0, 0, 0, :4] = -0.0, np.nan, np.nan, np.inf
    y, dx = backpass.relu(x), backpass.relu_grad(x, dy, nan=nan)
    assert_same_bits(y, reference(backpass.relu, x))
    assert_same_bits(dx, reference(backpass.relu_grad, x, dy, nan=nan))
    zero, is_nan = np.zeros((), dtype), np.isnan(x)
    positive = np.where(is_nan, zero, x) > 0
    assert_same_bits(y, np.where(positive | is_nan, x, zero))
    assert_same_bits(dx, np.where(positive | (is_nan & (nan == "pass")), dy, zero))


@pytest.mark.parametrize("dtype, problem, layout", cases(FLOATS + INTEGERS + UNSIGNED, POOLINGS))
def test_max_pool(reference, dtype, problem, layout):
    (x,) = arrays(dtype, layout, X_SHAPE)
    for kind in "compact", "flat":
        found = backpass.max_pool(x, winners=kind, **POOLINGS[problem])
        expected = reference(backpass.max_pool, x, winners=kind, **POOLINGS[problem])
        for one, other in zip(found, expected):
            assert_same_bits(one, other)
    assert_same_bits(backpass.max_pool(x, **POOLINGS[problem]), found[0])


@pytest.mark.parametrize("dtype, problem, layout", cases(FLOATS, POOLINGS))
def test_max_pool_grad(reference, dtype, problem, layout):
    parameters = POOLINGS[problem]
    (x,) = arrays(dtype, layout, X_SHAPE)
    y, compact = backpass.max_pool(x, winners="compact", **parameters)
    _, flat = backpass.max_pool(x, winners="flat", **parameters)
    (dy,) = arrays(dtype, layout, y.shape)
    expected = reference(backpass.max_pool_grad, dy, x=x, **parameters)
    assert_same_bits(backpass.max_pool_grad(dy, x=x, **parameters), expected)
    for winners in compact, flat, flat.astype(np.uint32):
        assert_same_bits(backpass.max_pool_grad(dy, winners=winners, x_shape=X_SHAPE, **parameters), expected)


@pytest.mark.parametrize("dtype, problem, layout", cases(FLOATS + [np.int8, np.uint8], RESAMPLINGS))
def test_resample(reference, dtype, problem, layout):
    (x,) = arrays(dtype, layout, X_SHAPE)
    shape, parameters = RESAMPLINGS[problem]
    found = backpass.resample(x, shape=shape, **parameters)
    assert_same_bits(found, reference(backpass.resample, x, shape=shape, **parameters))


@pytest.mark.parametrize("dtype, problem, layout", cases(FLOATS, RESAMPLINGS))
def test_resample_grad(reference, dtype, problem, layout):
    shape, parameters = RESAMPLINGS[problem]
    (dy,) = arrays(dtype, layout, shape)
    found = backpass.resample_grad(dy, x_shape=X_SHAPE, **parameters)
    assert_same_bits(found, reference(backpass.resample_grad, dy, x_shape=X_SHAPE, **parameters))


@pytest.mark.parametrize("dtype, problem, layout", cases(FLOATS + INTEGERS + UNSIGNED, SLICES))
def test_slice(reference, dtype, problem, layout):
    (x,) = arrays(dtype, layout, X_SHAPE)
    y = backpass.slice(x, **SLICES[problem])
    assert_same_bits(y, reference(backpass.slice, x, **SLICES[problem]))
    offsets, sizes, strides = (SLICES[problem].get(name, (1,) * 4) for name in ("offsets", "sizes", "strides"))
    window = x[tuple(np.s_[o : o + n] for o, n in zip(offsets, sizes))][tuple(np.s_[::s] for s in strides)]
    assert_same_bits(y, window)
    (dy,) = arrays(dtype, layout, y.shape)
    dx = backpass.slice_grad(dy, x_shape=X_SHAPE, **SLICES[problem])
    assert_same_bits(dx, reference(backpass.slice_grad, dy, x_shape=X_SHAPE, **SLICES[problem]))
    assert_same_bits(backpass.slice(dx, **SLICES[problem]), dy)
    assert np.count_nonzero(dx) == np.count_nonzero(dy)


# ---- Against NumPy ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("problem", POOLINGS)
def test_max_pool_is_what_numpy_finds(problem):
    """Each window by itself: its greatest element, and what its dy adds there."""
    x = numbers(X_SHAPE, np.float64)
    parameters = POOLINGS[problem]
    y, flat = backpass.max_pool(x, winners="flat", **parameters)
    dy = numbers(y.shape, np.float64, seed=1)
    dx = np.zeros(x.size)
    pairs = {name: np.broadcast_to(parameters.get(name, default), 2) for name, default in (
        ("window", 0), ("strides", parameters["window"]), ("start_padding", 0), ("dilations", 1))}  # fmt: skip
    for n, c, h, w in np.ndindex(y.shape):
        rows, columns = (
            [p for k in range(pairs["window"][i]) if 0 <= (p := o * pairs["strides"][i] - pairs["start_padding"][i]
             + k * pairs["dilations"][i]) < x.shape[2 + i]] for i, o in enumerate((h, w)))  # fmt: skip
        taps = [(n, c, r, s) for r in rows for s in columns]
        best = max(taps, key=lambda tap: x[tap])  # the first of the greatest
        assert y[n, c, h, w] == x[best]
        assert flat[n, c, h, w] == np.ravel_multi_index(best, x.shape)
        dx[flat[n, c, h, w]] += dy[n, c, h, w]
    assert_same_bits(backpass.max_pool_grad(dy, x=x, **parameters), dx.reshape(x.shape))


@pytest.mark.parametrize("size, out", [(2, 4), (5, 3), (7, 7), (3, 8)])
def test_half_pixel_weights_are_exact(size, out):
    """The matrix of the map, from the identity, is the rational one rounded once; the gradient is its transpose."""
    matrix = np.zeros((out, size))
    for o in range(out):
        c = max(Fraction((2 * o + 1) * size - out, 2 * out), Fraction(0))
        i = min(math.floor(c), size - 1)
        t = c - i if i < size - 1 else Fraction(0)
        matrix[o, i] += float(1 - t)
        if t:
            matrix[o, i + 1] += float(t)
    np.testing.assert_array_equal(backpass.resample(np.eye(size), shape=(out, size)), matrix)
    np.testing.assert_array_equal(backpass.resample_grad(np.eye(out), x_shape=(size, out)), matrix.T)


def test_resample_grad_is_the_adjoint_with_tables():
    table = ([1, 0, 3], [2, 0, 1], [0.5, 0.25, 2.0])
    x, dy = numbers((4, 3), np.float64), numbers((3, 3), np.float64, seed=1)
    matrix = np.array([[0, 0.5, 0.25, 0], [0, 0, 0, 0], [0, 0, 0, 2]])
    np.testing.assert_array_equal(backpass.resample(x, tables=[table, None]), matrix @ x)
    np.testing.assert_array_equal(backpass.resample_grad(dy, x_shape=(4, 3), tables=[table, None]), matrix.T @ dy)


# ---- Parameters ------------------------------------------------------------------------------------------


def test_a_number_stands_for_all_axes():
    x = numbers(X_SHAPE, np.float32)
    for window in 2, (2, 2), [2, 2], np.array([2, 2]), np.int64(2):
        assert_same_bits(backpass.max_pool(x, window), backpass.max_pool(x, (2, 2)))
    assert backpass.resample(x, scales=2).shape == (4, 6, 14, 18)
    assert backpass.slice(x, 1, 1).shape == (1, 1, 1, 1)


@pytest.mark.parametrize(
    "size, parameters, floor, ceil",
    [(7, dict(window=2), 3, 4), (5, dict(window=1, strides=3, start_padding=1, end_padding=1), 3, 3)],
)
def test_ceil_mode_is_pytorchs(size, parameters, floor, ceil):
    x = numbers((1, 1, size), np.float32)
    assert backpass.max_pool(x, **parameters).shape[2] == floor
    assert backpass.max_pool(x, ceil_mode=True, **parameters).shape[2] == ceil


def test_shape_gives_part_of_a_slice():
    np.testing.assert_array_equal(backpass.slice(np.arange(10), 0, 10, 3, shape=(2,)), [0, 3])


def test_wide_windows_have_wider_winners():
    x = numbers((1, 1, 300, 300), np.float32)
    for window, dtype in ((15, np.uint8), (16, np.uint16), (256, np.uint32)):
        y, winners = backpass.max_pool(x, window, winners="compact")
        assert winners.dtype == dtype
        named = dict(winners=winners, x_shape=x.shape, window=window, winners_kind="compact")
        assert_same_bits(backpass.max_pool_grad(y, **named), backpass.max_pool_grad(y, x=x, window=window))


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_threads_change_no_bit(threads):
    x = numbers((4, 8, 64, 64), np.float32)
    assert_same_bits(backpass.max_pool(x, 3, strides=1, threads=threads), backpass.max_pool(x, 3, strides=1))
