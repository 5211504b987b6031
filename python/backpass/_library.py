# SPDX-License-Identifier: Apache-2.0
"""libbackpass as ctypes sees it: the structs and calls of backpass.h, and its errors as exceptions."""

import ctypes
import os
from ctypes import POINTER, Structure, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint32, c_void_p
from pathlib import Path

# ---- The structs of backpass.h, field by field -------------------------------------------------------------


_int64s = POINTER(c_int64)
_doubles = POINTER(c_double)


class _Desc(Structure):
    """A struct that begins with its size. The fields are given by name; what is left out is 0 or null."""

    _fields_ = [("struct_size", c_size_t)]

    def __init__(self, **fields):
        super().__init__(ctypes.sizeof(self), **fields)


class Tensor(_Desc):
    _fields_ = [("dtype", c_int32), ("rank", c_int32), ("sizes", _int64s), ("strides", _int64s)]


class Device(Structure):
    _fields_ = [("kind", c_int32), ("ordinal", c_int32)]


class Options(_Desc):
    _fields_ = [
        ("implementation", c_char_p),
        ("threads", c_int32),
        ("reserved", c_int32),
        ("parallel_for", c_void_p),
        ("parallel_for_context", c_void_p),
    ]


_tensor = POINTER(Tensor)


class Relu(_Desc):
    _fields_ = [("x", _tensor), ("y", _tensor)]


class ReluGrad(_Desc):
    _fields_ = [("x", _tensor), ("dy", _tensor), ("dx", _tensor), ("nan", c_int32), ("reserved", c_int32)]


class Window(_Desc):
    _fields_ = [
        ("spatial_rank", c_int32),
        ("reserved", c_int32),
        ("size", _int64s),
        ("strides", _int64s),
        ("start_padding", _int64s),
        ("end_padding", _int64s),
        ("dilations", _int64s),
    ]


class MaxPool(_Desc):
    _fields_ = [
        ("x", _tensor),
        ("y", _tensor),
        ("winners", _tensor),
        ("window", POINTER(Window)),
        ("winners_kind", c_int32),
        ("reserved", c_int32),
    ]


class MaxPoolGrad(_Desc):
    _fields_ = [
        ("x", _tensor),
        ("dy", _tensor),
        ("winners", _tensor),
        ("dx", _tensor),
        ("window", POINTER(Window)),
        ("winners_kind", c_int32),
        ("reserved", c_int32),
    ]


class ResampleTable(Structure):
    _fields_ = [("first", _int64s), ("count", _int64s), ("weights", _doubles), ("weight_count", c_int64)]


class ResampleMap(_Desc):
    _fields_ = [
        ("mode", c_int32),
        ("rounding", c_int32),
        ("convention", c_int32),
        ("rank", c_int32),
        ("scales", _doubles),
        ("input_offsets", _doubles),
        ("output_offsets", _doubles),
        ("tables", POINTER(ResampleTable)),
    ]


class Resample(_Desc):
    _fields_ = [("x", _tensor), ("y", _tensor), ("map", POINTER(ResampleMap))]


class ResampleGrad(_Desc):
    _fields_ = [("dy", _tensor), ("dx", _tensor), ("map", POINTER(ResampleMap))]


class SliceWindow(_Desc):
    _fields_ = [
        ("rank", c_int32),
        ("reserved", c_int32),
        ("offsets", _int64s),
        ("sizes", _int64s),
        ("strides", _int64s),
    ]


class Slice(_Desc):
    _fields_ = [("x", _tensor), ("y", _tensor), ("window", POINTER(SliceWindow))]


class SliceGrad(_Desc):
    _fields_ = [("dy", _tensor), ("dx", _tensor), ("window", POINTER(SliceWindow))]


def int64s(values):
    return (c_int64 * len(values))(*values)


def doubles(values):
    return (c_double * len(values))(*values)


# ---- Its values ------------------------------------------------------------------------------------------

KINDS = {
    Relu: 1,
    ReluGrad: 2,
    MaxPool: 3,
    MaxPoolGrad: 4,
    Resample: 5,
    ResampleGrad: 6,
    Slice: 7,
    SliceGrad: 8,
}
# By the names that every framework gives its types.
DTYPES = {
    "float64": 1,
    "float32": 2,
    "float16": 3,
    "bfloat16": 4,
    "int64": 5,
    "int32": 6,
    "int16": 7,
    "int8": 8,
    "uint64": 9,
    "uint32": 10,
    "uint16": 11,
    "uint8": 12,
}
CPU, CUDA = 0, 1
NAN = {"zero": 0, "pass": 1}
WINNERS = {"compact": 1, "flat": 2}
MODES = {"nearest": 0, "linear": 1}
ROUNDINGS = {"increasing": 0, "decreasing": 1, "half-up": 2}
CONVENTIONS = {"half-pixel": 0, "align-corners": 1, "asymmetric": 2}

# ---- Its calls -------------------------------------------------------------------------------------------


def _load():
    """The library that lies beside this file, or the one that BACKPASS_LIBRARY names."""
    path = os.environ.get("BACKPASS_LIBRARY") or str(Path(__file__).with_name("libbackpass.so"))
    try:
        # A CDLL lets other threads of the interpreter run while a call lasts.
        return ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(
            f"backpass: the library cannot be loaded (BACKPASS_LIBRARY may name another): {error}"
        ) from None


_library = _load()


def _call(name, result, *arguments):
    function = getattr(_library, name)
    function.restype = result
    function.argtypes = arguments or None
    return function


_version = _call("bp_version", c_uint32)
_last_error = _call("bp_last_error", c_char_p)
_create = _call("bp_operator_create", c_int32, c_int32, c_void_p, Device, POINTER(Options), POINTER(c_void_p))
_workspace_size = _call("bp_operator_workspace_size", c_int32, c_void_p, POINTER(c_size_t))
_explain = _call("bp_operator_explain", c_int32, c_void_p, c_char_p, c_size_t, POINTER(c_size_t))
# The one that is called again and again has no types declared, whose conversions would take longer than the call: it is
# given objects of ctypes, the lists of pointers as bytes, and None. (An int would lose its upper half.)
run = _call("bp_operator_run", c_int32)
check = _call("bp_operator_check", c_int32, c_void_p, c_void_p, c_void_p)
destroy = _call("bp_operator_destroy", None, c_void_p)
device_count = _call("bp_device_count", c_int32, c_int32)

_EXCEPTIONS = {1: ValueError, 2: NotImplementedError, 3: MemoryError}  # and RuntimeError for the device's and our own


def failure(status):
    """The exception for a status that is not 0, with the sentence that the failing call left on this thread."""
    return _EXCEPTIONS.get(status, RuntimeError)(_last_error().decode())


def _require(status):
    if status:
        raise failure(status)


def version() -> str:
    number = _version()
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def create(desc, device, threads):
    """The handle of a new operator; it is destroyed by `destroy`."""
    handle = c_void_p()
    options = Options(threads=threads)
    _require(_create(KINDS[type(desc)], ctypes.byref(desc), device, ctypes.byref(options), ctypes.byref(handle)))
    return handle


def workspace_size(handle):
    size = c_size_t()
    _require(_workspace_size(handle, ctypes.byref(size)))
    return size.value


def explain(handle):
    length = c_size_t()
    _require(_explain(handle, None, 0, ctypes.byref(length)))
    text = ctypes.create_string_buffer(length.value + 1)
    _require(_explain(handle, text, len(text), None))
    return text.value.decode()
