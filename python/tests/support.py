# SPDX-License-Identifier: Apache-2.0
"""Arrays for the tests, and how to compare them."""

import ml_dtypes
import numpy as np

FLOATS = [np.float64, np.float32, np.float16, ml_dtypes.bfloat16]
INTEGERS = [np.int64, np.int32, np.int16, np.int8]
UNSIGNED = [np.uint64, np.uint32, np.uint16, np.uint8]


def name_of(dtype):
    return np.dtype(dtype).name


def numbers(shape, dtype, seed=0):
    """Quarters of small numbers, with ties; exact in every type."""
    values = np.random.default_rng(seed).integers(-20, 20, shape)
    return (values / 4).astype(dtype) if np.dtype(dtype).kind not in "iu" else np.abs(values).astype(dtype)


def layouts(x):
    """The same values in memory of many shapes, by name."""
    last = x.ndim - 1
    wide = np.zeros(tuple(2 * s for s in x.shape), x.dtype)
    every_second = wide[tuple(np.s_[::2] for _ in x.shape)]
    every_second[...] = x
    backwards = tuple(np.s_[::-1] for _ in x.shape)
    return {
        "row-major": np.ascontiguousarray(x),
        "Fortran": np.asfortranarray(x),
        "channels last": np.moveaxis(np.ascontiguousarray(np.moveaxis(x, min(1, last), last)), last, min(1, last)),
        "strided": every_second,
        "backwards": np.ascontiguousarray(x[backwards])[backwards],
    }


def assert_same_bits(found, expected):
    assert type(found) is type(expected)
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    found, expected = (np.ascontiguousarray(a).reshape(-1).view(f"u{a.itemsize}") for a in (found, expected))
    np.testing.assert_array_equal(found, expected)
