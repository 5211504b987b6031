# SPDX-License-Identifier: Apache-2.0
"""The operators. x and y are the forward input and output, dy the incoming gradient, dx the result.

What each computes stands beside its code in src/ops/; here a call becomes the desc of backpass.h.
"""

from __future__ import annotations

import ctypes
import math
import operator
from collections.abc import Sequence
from typing import Any, Literal, TypeVar, Union, overload

from . import _library
from ._library import doubles, int64s
from ._plans import describes, run

Array = TypeVar("Array")
Ints = Union[int, Sequence[int]]
Reals = Union[float, Sequence[float]]
Table = tuple[Sequence[int], Sequence[int], Sequence[float]]

# ---- Parameters ------------------------------------------------------------------------------------------


def _spread(problem, label, value, count, convert):
    """One entry for each axis; a single number stands for all of them."""
    try:
        values = (convert(value),) * count
    except TypeError:
        try:
            values = tuple(map(convert, value))
        except TypeError:
            problem.refuse(f"{label}: is {value!r}, expected a number or one for each axis", TypeError)
    problem.require_count(label, len(values), count)
    return values


def _integers(problem, label, value, count):
    values = _spread(problem, label, value, count, operator.index)
    if any(not -(2**63) <= v < 2**63 for v in values):
        problem.refuse(f"{label}: is {values}, expected numbers of 64 bits")
    return values


def _choice(problem, label, value, choices):
    if value not in choices:
        problem.refuse(f"{label}: is {value!r}, expected {' or '.join(map(repr, choices))}")
    return choices[value]


def _shape(problem, label, value):
    if value is None:
        problem.refuse(f"{label}: is missing", TypeError)
    rank = len(value) if hasattr(value, "__len__") else 1
    shape = _integers(problem, label, value, rank)
    if any(size < 0 for size in shape):
        problem.refuse(f"{label}: is {shape}, expected no negative size")
    return shape


def _y_shape(problem, shape, default):
    """As it is asked for, else as `out` has it, else the default."""
    found = problem.out_shape()
    if shape is None:
        return default() if found is None else found
    shape = _shape(problem, "shape", shape)
    if found not in (None, shape):
        problem.refuse(f"out: has shape {found}, expected {shape}")
    return shape


# ---- ReLU ------------------------------------------------------------------------------------------------


@describes("relu", "x")
def _relu(problem, x):
    return _library.Relu(x=problem.tensor(x), y=problem.output("y", x.dtype, x.shape))


def relu(x: Array, *, out: Array | None = None, threads: int | None = None) -> Array:
    """y = x where x > 0 or NaN, else +0.

    >>> relu(np.array([-1.0, 0.0, 2.0]))
    array([0., 0., 2.])
    """
    return run(_relu, (), x, None, out, threads)


@describes("relu_grad", "x", "dy")
def _relu_grad(problem, x, dy, nan):
    return _library.ReluGrad(
        x=problem.tensor(x),
        dy=problem.tensor(dy),
        dx=problem.output("dx", dy.dtype, x.shape),
        nan=_choice(problem, "nan", nan, _library.NAN),
    )


def relu_grad(
    x: Array,
    dy: Array,
    *,
    nan: Literal["zero", "pass"] = "zero",
    out: Array | None = None,
    threads: int | None = None,
) -> Array:
    """dx = dy where x > 0, else +0. x may be relu's input or its output.

    Where x is NaN dx is +0, or dy with nan="pass", as PyTorch has it.

    >>> relu_grad(np.array([-1.0, 0.0, 2.0]), np.array([5.0, 6.0, 7.0]))
    array([0., 0., 7.])
    """
    return run(_relu_grad, (nan,), x, dy, out, threads)


# ---- Max pooling -----------------------------------------------------------------------------------------


class _Window:
    def __init__(self, problem, x_shape, window, strides, start_padding, end_padding, dilations):
        if not 3 <= len(x_shape) <= 5:
            problem.refuse(f"x: rank is {len(x_shape)}, expected 3 to 5 (N, C and 1 to 3 spatial axes)")
        self.spatial = len(x_shape) - 2
        self.size = _integers(problem, "window", window, self.spatial)
        self.strides = self.size if strides is None else _integers(problem, "strides", strides, self.spatial)
        self.start_padding = _integers(problem, "start_padding", start_padding, self.spatial)
        self.end_padding = _integers(problem, "end_padding", end_padding, self.spatial)
        self.dilations = _integers(problem, "dilations", dilations, self.spatial)

    def desc(self):
        return ctypes.pointer(
            _library.Window(
                spatial_rank=self.spatial,
                size=int64s(self.size),
                strides=int64s(self.strides),
                start_padding=int64s(self.start_padding),
                end_padding=int64s(self.end_padding),
                dilations=int64s(self.dilations),
            )
        )

    def output_shape(self, x_shape, ceil_mode):
        sizes = (self._output_size(axis, size, ceil_mode) for axis, size in enumerate(x_shape[2:]))
        return x_shape[:2] + tuple(sizes)

    def _output_size(self, axis, size, ceil_mode):
        stride = self.strides[axis]
        begin = size + self.start_padding[axis]
        room = begin + self.end_padding[axis] - ((self.size[axis] - 1) * self.dilations[axis] + 1)
        if stride < 1 or room < 0:
            return 1  # the library will refuse such a window, whatever the size
        whole = room // stride + 1
        # PyTorch's rule: a last window that would start beyond the input and its start padding is dropped.
        return whole + 1 if ceil_mode and room % stride and whole * stride < begin else whole

    def compact_dtype(self):
        taps = math.prod(self.size)
        return "uint8" if taps <= 0xFF else "uint16" if taps <= 0xFFFF else "uint32"


@describes("max_pool", "x")
def _max_pool(problem, x, window, strides, start_padding, end_padding, dilations, ceil_mode, winners):
    window = _Window(problem, x.shape, window, strides, start_padding, end_padding, dilations)
    shape = window.output_shape(x.shape, ceil_mode)
    desc = _library.MaxPool(x=problem.tensor(x), y=problem.output("y", x.dtype, shape), window=window.desc())
    if winners is not None:
        desc.winners_kind = _choice(problem, "winners", winners, _library.WINNERS)
        dtype = window.compact_dtype() if winners == "compact" else problem.kind.index_dtype
        desc.winners = problem.output("winners", dtype, shape)
    return desc


@overload
def max_pool(
    x: Array,
    window: Ints,
    *,
    strides: Ints | None = ...,
    start_padding: Ints = ...,
    end_padding: Ints = ...,
    dilations: Ints = ...,
    ceil_mode: bool = ...,
    winners: None = ...,
    out: Array | None = ...,
    threads: int | None = ...,
) -> Array: ...
@overload
def max_pool(
    x: Array,
    window: Ints,
    *,
    strides: Ints | None = ...,
    start_padding: Ints = ...,
    end_padding: Ints = ...,
    dilations: Ints = ...,
    ceil_mode: bool = ...,
    winners: Literal["compact", "flat"],
    out: tuple[Array, Any] | None = ...,
    threads: int | None = ...,
) -> tuple[Array, Any]: ...
def max_pool(
    x: Any,
    window: Ints,
    *,
    strides: Ints | None = None,
    start_padding: Ints = 0,
    end_padding: Ints = 0,
    dilations: Ints = 1,
    ceil_mode: bool = False,
    winners: str | None = None,
    out: Any = None,
    threads: int | None = None,
) -> Any:
    """The greatest value of each window of x, whose axes are N, C and one to three spatial ones.

    A number stands for all spatial axes; the strides are those of the window unless given. NaN is greater than
    everything, the first among equals wins, padding never does. ceil_mode is PyTorch's.

    With winners="compact" (the tap's number in its window) or "flat" (the index into x) the result is (y, winners), and
    so is `out`.

    >>> x = np.array([[[[1.0, 2.0, 3.0], [2.0, 4.0, 2.0], [5.0, 6.0, 7.0]]]])
    >>> max_pool(x, 2, strides=1)
    array([[[[4., 4.],
             [6., 7.]]]])
    >>> y, winners = max_pool(x, 2, strides=1, winners="flat")
    >>> winners
    array([[[[4, 4],
             [7, 8]]]])
    """
    parameters = (window, strides, start_padding, end_padding, dilations, ceil_mode, winners)
    return run(_max_pool, parameters, x, None, out, threads)


@describes("max_pool_grad", "x", "dy")
def _max_pool_grad(problem, x, dy, x_shape, *window):
    if x_shape is not None and _shape(problem, "x_shape", x_shape) != x.shape:
        problem.refuse(f"x_shape: is {x_shape}, expected {x.shape} as x has it, or none")
    return _library.MaxPoolGrad(
        x=problem.tensor(x),
        dy=problem.tensor(dy),
        dx=problem.output("dx", dy.dtype, x.shape),
        window=_Window(problem, x.shape, *window).desc(),
    )


@describes("max_pool_grad", "dy", "winners", absent=1)
def _max_pool_grad_from_winners(problem, dy, winners, kind, check, x_shape, *window):
    x_shape = _shape(problem, "x_shape", x_shape)
    window = _Window(problem, x_shape, *window)
    if kind is None:
        kind = "compact" if winners.dtype == window.compact_dtype() else "flat"
        if winners.dtype == window.compact_dtype() == "uint32":
            problem.refuse("winners_kind: is missing, and uint32 could be either, expected 'compact' or 'flat'")
    problem.check = check
    return _library.MaxPoolGrad(
        dy=problem.tensor(dy),
        winners=problem.tensor(winners),
        dx=problem.output("dx", dy.dtype, x_shape),
        window=window.desc(),
        winners_kind=_choice(problem, "winners_kind", kind, _library.WINNERS),
    )


def max_pool_grad(
    dy: Array,
    *,
    x: Array | None = None,
    winners: Any = None,
    winners_kind: Literal["compact", "flat"] | None = None,
    x_shape: Sequence[int] | None = None,
    window: Ints,
    strides: Ints | None = None,
    start_padding: Ints = 0,
    end_padding: Ints = 0,
    dilations: Ints = 1,
    check: bool = False,
    out: Array | None = None,
    threads: int | None = None,
) -> Array:
    """dx: each dy is added to the element that won its window, in ascending order of the windows.

    The winners are found again in x, or read: give `x`, or `winners` and `x_shape`. Their kind follows from their type
    unless it is given.

    A winner that is no tap of its window counts for nothing. On the CPU it raises ValueError; on a CUDA device the call
    does not wait to find out, unless check=True asks for it.

    >>> x = np.array([[[[1.0, 2.0, 3.0], [2.0, 4.0, 2.0], [5.0, 6.0, 7.0]]]])
    >>> dy = np.array([[[[1.0, 2.0], [4.0, 5.0]]]])
    >>> max_pool_grad(dy, x=x, window=2, strides=1)
    array([[[[0., 0., 0.],
             [0., 3., 0.],
             [0., 4., 5.]]]])
    >>> y, winners = max_pool(x, 2, strides=1, winners="compact")
    >>> np.array_equal(max_pool_grad(dy, winners=winners, x_shape=x.shape, window=2, strides=1), _)
    True
    """
    parameters = (x_shape, window, strides, start_padding, end_padding, dilations)
    if (x is None) == (winners is None):
        raise ValueError("max_pool_grad: expected either x or winners")
    if winners is None:
        return run(_max_pool_grad, parameters, x, dy, out, threads)
    return run(_max_pool_grad_from_winners, (winners_kind, check, *parameters), dy, winners, out, threads)


# ---- Resample --------------------------------------------------------------------------------------------


class _Map:
    def __init__(self, problem, rank, mode, rounding, convention, scales, input_offsets, output_offsets, tables):
        def reals(label, value):
            return None if value is None else doubles(_spread(problem, label, value, rank, float))

        self.problem = problem
        self.rank = rank
        self.mode = _choice(problem, "mode", mode, _library.MODES)
        self.rounding = _choice(problem, "rounding", rounding, _library.ROUNDINGS)
        self.convention = _choice(problem, "convention", convention, _library.CONVENTIONS)
        self.scales = reals("scales", scales)
        self.input_offsets = reals("input_offsets", input_offsets)
        self.output_offsets = reals("output_offsets", output_offsets)
        self.tables = None if tables is None else tuple(tables)
        if self.tables is not None:
            problem.require_count("tables", len(self.tables), rank)

    def output_shape(self, x_shape):
        """floor(in * scale); an axis with a table has its length, one with neither stays as it is."""
        if self.scales is None and self.tables is None:
            self.problem.refuse("shape: is missing, and so are scales or tables that would give it")
        return tuple(self._output_size(axis, size) for axis, size in enumerate(x_shape))

    def _output_size(self, axis, size):
        if self.tables is not None and self.tables[axis] is not None:
            return len(self.tables[axis][0])
        if self.scales is None:
            return size
        scaled = size * self.scales[axis]
        if not 0 <= scaled < 2**63:
            self.problem.refuse(f"scales: axis {axis}: {self.scales[axis]} times the size {size} is no size")
        if size and scaled < 1:
            self.problem.refuse(f"scales: axis {axis}: {self.scales[axis]} times the size {size} leaves no output")
        return math.floor(scaled)

    def desc(self, y_shape):
        tables = None
        if self.tables is not None:
            entries = (self._table(axis, *entry) for axis, entry in enumerate(zip(self.tables, y_shape)))
            tables = (_library.ResampleTable * self.rank)(*entries)
        return ctypes.pointer(
            _library.ResampleMap(
                mode=self.mode,
                rounding=self.rounding,
                convention=self.convention,
                rank=self.rank,
                scales=self.scales,
                input_offsets=self.input_offsets,
                output_offsets=self.output_offsets,
                tables=tables,
            )
        )

    def _table(self, axis, table, size):
        if table is None:
            return _library.ResampleTable()
        label = f"tables: axis {axis}"
        self.problem.require_count(label, len(table), 3, "list", "lists")
        first, count, weights = table
        return _library.ResampleTable(
            first=int64s(_integers(self.problem, f"{label}: first", first, size)),
            count=int64s(_integers(self.problem, f"{label}: count", count, size)),
            weights=doubles(_spread(self.problem, f"{label}: weights", weights, len(weights), float)),
            weight_count=len(weights),
        )


@describes("resample", "x")
def _resample(problem, x, shape, *parameters):
    x_shape = x.shape or (1,)
    map_ = _Map(problem, len(x_shape), *parameters)
    y_shape = _y_shape(problem, shape, lambda: map_.output_shape(x_shape))
    return _library.Resample(x=problem.tensor(x), y=problem.output("y", x.dtype, y_shape), map=map_.desc(y_shape))


def resample(
    x: Array,
    *,
    shape: Sequence[int] | None = None,
    scales: Reals | None = None,
    mode: Literal["nearest", "linear"] = "linear",
    rounding: Literal["increasing", "decreasing", "half-up"] = "half-up",
    convention: Literal["half-pixel", "align-corners", "asymmetric"] = "half-pixel",
    input_offsets: Reals | None = None,
    output_offsets: Reals | None = None,
    tables: Sequence[Table | None] | None = None,
    out: Array | None = None,
    threads: int | None = None,
) -> Array:
    """x at another size, by nearest or linear interpolation along every axis whose size changes.

    `shape` is all of y's shape, or else floor(size * scale). Without `scales` the convention's coordinates are exact;
    with them output o reads (o - output_offset) / scale - input_offset, and the convention gives the offsets that are
    left out. A number stands for all axes, N and C too. `rounding` is for nearest.

    `tables` has an entry for each axis: None, or (first, count, weights), where output o is the weighted sum of the
    elements first[o] to first[o] + count[o] - 1, and weights has those of output 0 first.

    >>> resample(np.array([1.0, 2.0]), shape=(4,))
    array([1.  , 1.25, 1.75, 2.  ])
    >>> resample(np.array([[1, 2], [3, 4]], np.uint8), scales=(1, 1.5), mode="nearest", rounding="decreasing")
    array([[1, 1, 2],
           [3, 3, 4]], dtype=uint8)
    >>> resample(np.array([1.0, 2.0, 4.0]), tables=[([0, 1], [2, 2], [0.5, 0.5, 0.5, 0.5])])
    array([1.5, 3. ])
    """
    parameters = (shape, mode, rounding, convention, scales, input_offsets, output_offsets, tables)
    return run(_resample, parameters, x, None, out, threads)


@describes("resample_grad", "dy")
def _resample_grad(problem, dy, x_shape, *parameters):
    x_shape = _shape(problem, "x_shape", x_shape) or (1,)
    map_ = _Map(problem, len(x_shape), *parameters)
    return _library.ResampleGrad(
        dy=problem.tensor(dy), dx=problem.output("dx", dy.dtype, x_shape), map=map_.desc(dy.shape or (1,))
    )


def resample_grad(
    dy: Array,
    *,
    x_shape: Sequence[int],
    scales: Reals | None = None,
    mode: Literal["nearest", "linear"] = "linear",
    rounding: Literal["increasing", "decreasing", "half-up"] = "half-up",
    convention: Literal["half-pixel", "align-corners", "asymmetric"] = "half-pixel",
    input_offsets: Reals | None = None,
    output_offsets: Reals | None = None,
    tables: Sequence[Table | None] | None = None,
    out: Array | None = None,
    threads: int | None = None,
) -> Array:
    """dx, the exact adjoint of `resample` with the same parameters.

    >>> resample_grad(np.array([1.0, 2.0, 3.0, 4.0]), x_shape=(2,))
    array([3.25, 6.75])
    """
    parameters = (x_shape, mode, rounding, convention, scales, input_offsets, output_offsets, tables)
    return run(_resample_grad, parameters, dy, None, out, threads)


# ---- Slice -----------------------------------------------------------------------------------------------


class _SliceWindow:
    def __init__(self, problem, rank, offsets, sizes, strides):
        self.offsets = _integers(problem, "offsets", offsets, rank)
        self.sizes = _integers(problem, "sizes", sizes, rank)
        self.strides = _integers(problem, "strides", strides, rank)

    def output_shape(self):
        # The library will refuse a stride of 0, whatever the size.
        return tuple(
            0 if size < 1 or stride == 0 else 1 + (size - 1) // abs(stride)
            for size, stride in zip(self.sizes, self.strides)
        )

    def desc(self):
        return ctypes.pointer(
            _library.SliceWindow(
                rank=len(self.sizes),
                offsets=int64s(self.offsets),
                sizes=int64s(self.sizes),
                strides=int64s(self.strides),
            )
        )


@describes("slice", "x")
def _slice(problem, x, shape, *parameters):
    window = _SliceWindow(problem, len(x.shape or (1,)), *parameters)
    y_shape = _y_shape(problem, shape, window.output_shape)
    return _library.Slice(x=problem.tensor(x), y=problem.output("y", x.dtype, y_shape), window=window.desc())


def slice(
    x: Array,
    offsets: Ints,
    sizes: Ints,
    strides: Ints = 1,
    *,
    shape: Sequence[int] | None = None,
    out: Array | None = None,
    threads: int | None = None,
) -> Array:
    """The window of x that starts at `offsets` and has `sizes`, walked by `strides`; a negative one starts at its end.

    A number stands for all axes. `shape`, where it is given, is y's, and may leave out the last elements of the walk.

    >>> slice(np.arange(10), 2, 6, -2)
    array([7, 5, 3])
    """
    return run(_slice, (shape, offsets, sizes, strides), x, None, out, threads)


@describes("slice_grad", "dy")
def _slice_grad(problem, dy, x_shape, *parameters):
    x_shape = _shape(problem, "x_shape", x_shape) or (1,)
    window = _SliceWindow(problem, len(x_shape), *parameters)
    return _library.SliceGrad(dy=problem.tensor(dy), dx=problem.output("dx", dy.dtype, x_shape), window=window.desc())


def slice_grad(
    dy: Array,
    *,
    x_shape: Sequence[int],
    offsets: Ints,
    sizes: Ints,
    strides: Ints = 1,
    out: Array | None = None,
    threads: int | None = None,
) -> Array:
    """dx: each dy where `slice` found its element, zero elsewhere.

    >>> slice_grad(np.array([1.0, 2.0, 3.0]), x_shape=(10,), offsets=2, sizes=6, strides=-2)
    array([0., 0., 0., 3., 0., 2., 0., 1., 0., 0.])
    """
    return run(_slice_grad, (x_shape, offsets, sizes, strides), dy, None, out, threads)
