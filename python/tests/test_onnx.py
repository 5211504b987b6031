# SPDX-License-Identifier: Apache-2.0
"""ONNX's own node tests of MaxPool and Resize, forward, in terms of backpass.max_pool and backpass.resample."""

import math
import warnings

import backpass
import numpy as np
import pytest
from onnx import helper
from onnx.backend.test.case.node import collect_testcases

# The whole list of what is not run, and why.
LEFT_OUT = {
    "test_maxpool_with_argmax_2d_precomputed_strides": "its indices count the elements column by column",
    "test_resize_tf_crop_and_resize_extrapolation_value": "what lies outside of x is a constant, no element of x",
}


def collect():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # other operators' cases divide by zero, and more
        cases = collect_testcases(None)
    return {case.name: case for case in cases if case.model.graph.node[0].op_type in ("MaxPool", "Resize")}


CASES = collect()


@pytest.mark.parametrize("name", CASES)
def test_case(name):
    if name in LEFT_OUT:
        pytest.skip(LEFT_OUT[name])
    case = CASES[name]
    (node,) = case.model.graph.node
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    attributes = {key: value.decode() if isinstance(value, bytes) else value for key, value in attributes.items()}
    for inputs, outputs in case.data_sets:
        named = dict(zip((i for i in node.input if i), inputs))
        if node.op_type == "MaxPool":
            found = max_pool(inputs[0], len(outputs) > 1, **attributes)
        else:
            arrays = {key: named.get(key) for key in ("roi", "scales", "sizes")}
            found = (resize(inputs[0], **arrays, **attributes),)
        assert len(found) == len(outputs)
        for one, other in zip(found, outputs):
            assert one.dtype == other.dtype
            np.testing.assert_allclose(one, other, rtol=case.rtol, atol=case.atol)


def test_what_is_left_out_exists():
    assert set(LEFT_OUT) < set(CASES)


# ---- MaxPool ---------------------------------------------------------------------------------------------


def max_pool(x, with_winners, kernel_shape, strides=None, pads=None, dilations=None, auto_pad="NOTSET", ceil_mode=0):
    rank = len(kernel_shape)
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    pads = pads or [0] * (2 * rank)
    if auto_pad.startswith("SAME"):
        extents = [(w - 1) * d + 1 for w, d in zip(kernel_shape, dilations)]
        missing = [max((-(-n // s) - 1) * s + e - n, 0) for n, s, e in zip(x.shape[2:], strides, extents)]
        less, more = [m // 2 for m in missing], [m - m // 2 for m in missing]
        pads = less + more if auto_pad == "SAME_UPPER" else more + less
    result = backpass.max_pool(
        x,
        kernel_shape,
        strides=strides,
        start_padding=pads[:rank],
        end_padding=pads[rank:],
        dilations=dilations,
        ceil_mode=bool(ceil_mode),
        winners="flat" if with_winners else None,
    )
    return result if with_winners else (result,)


# ---- Resize ----------------------------------------------------------------------------------------------


def resize(
    x,
    roi=None,
    scales=None,
    sizes=None,
    mode="nearest",
    coordinate_transformation_mode="half_pixel",
    nearest_mode="round_prefer_floor",
    axes=None,
    keep_aspect_ratio_policy="stretch",
    antialias=0,
    cubic_coeff_a=-0.75,
    exclude_outside=0,
):
    """Each axis becomes a scale and two offsets or, where the kernel is wider than linear's, a table."""
    axes = range(x.ndim) if axes is None else axes
    given = [1.0] * x.ndim
    shape = list(x.shape)
    if sizes is not None:
        ratios = [size / x.shape[axis] for axis, size in zip(axes, sizes)]
        if keep_aspect_ratio_policy != "stretch":
            ratios = [(min if keep_aspect_ratio_policy == "not_larger" else max)(ratios)] * len(ratios)
            sizes = [math.floor(x.shape[axis] * ratio + 0.5) for axis, ratio in zip(axes, ratios)]
        scales = ratios
    for i, axis in enumerate(axes):
        given[axis] = float(scales[i])
        shape[axis] = int(sizes[i]) if sizes is not None else math.floor(x.shape[axis] * given[axis])
    rois = {axis: (roi[i], roi[i + len(axes)]) for i, axis in enumerate(axes)} if roi is not None else {}
    maps = [
        coordinates(coordinate_transformation_mode, x.shape[i], shape[i], given[i], rois.get(i, (0, 1)))
        for i in range(x.ndim)
    ]
    if mode == "cubic" or antialias:
        tables = [
            table(maps[i], x.shape[i], shape[i], given[i], mode, cubic_coeff_a, antialias, exclude_outside)
            for i in range(x.ndim)
        ]
        return backpass.resample(x, tables=tables)
    shift = 0.5 if nearest_mode == "round_prefer_floor" and mode == "nearest" else 0  # ceil(c - 0.5)
    rounding = {"floor": "decreasing", "round_prefer_ceil": "half-up"}.get(nearest_mode, "increasing")
    return backpass.resample(
        x,
        shape=shape,
        mode=mode,
        rounding=rounding,
        scales=[scale for scale, _, _ in maps],
        input_offsets=[offset + shift for _, offset, _ in maps],
        output_offsets=[offset for _, _, offset in maps],
    )


def coordinates(mode, size, out, scale, roi):
    """(scale, input_offset, output_offset), which together give ONNX's coordinate c = (o - op) / scale - ip."""
    if mode == "pytorch_half_pixel" and out == 1:
        return 1.0, 0.0, 0.0
    if mode in ("half_pixel", "pytorch_half_pixel"):
        return scale, 0.5, -0.5
    if mode == "half_pixel_symmetric":
        return scale, 0.5 - size / 2 * (1 - out / (scale * size)), -0.5
    if mode == "asymmetric":
        return scale, 0.0, 0.0
    if mode == "align_corners":
        return ((scale * size - 1) / (size - 1) if size > 1 else 1.0), 0.0, 0.0
    assert mode == "tf_crop_and_resize"
    start, end = roi
    return ((out - 1) / ((end - start) * (size - 1)) if out > 1 else 1.0), -start * (size - 1), 0.0


def table(coordinate, size, out, scale, mode, a, antialias, exclude_outside):
    """The taps of a kernel around each coordinate; beyond the edge they fall on it, or out."""
    scale_, input_offset, output_offset = coordinate
    narrow = min(scale, 1.0) if antialias else 1.0
    kernel, support = (lambda d: cubic(d, a), 2) if mode == "cubic" else (lambda d: max(1 - d, 0.0), 1)
    first, count, weights = [], [], []
    for o in range(out):
        c = (o - output_offset) / scale_ - input_offset
        taps = range(math.ceil(c - support / narrow), math.floor(c + support / narrow) + 1)
        values = [kernel(abs(tap - c) * narrow) for tap in taps]
        row = {}
        for tap, value in zip(taps, values):
            if exclude_outside and not 0 <= tap < size:
                continue
            tap = min(max(tap, 0), size - 1)
            row[tap] = row.get(tap, 0.0) + value
        total = sum(row.values())
        first.append(min(row))
        count.append(len(row))
        weights += [row[tap] / total for tap in sorted(row)]
    return first, count, weights


def cubic(d, a):
    if d <= 1:
        return ((a + 2) * d - (a + 3)) * d * d + 1
    return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a if d < 2 else 0.0
