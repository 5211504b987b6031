# SPDX-License-Identifier: Apache-2.0
"""Arrays of every kind: where their elements lie, and how to make another.

A kind has

    layout(x)     all that a plan depends on, as a tuple that can be a key; cheap, for it is asked in every call
    view(layout)  the same in the library's terms: type, sizes, strides in elements, device
    pointer(x)    the address of element (0, ..., 0)
    maker(layout, dtype, shape, order)
                  a function that makes an array like one of that layout; order names its axes, outermost first
    stream(x), memory(x, bytes), capturing(x)
                  on a CUDA device: the current stream, scratch memory on it, and whether it is being captured

No framework is imported here: whoever has an array of one has imported it.
"""

import ctypes
import sys
from functools import partial
from typing import NamedTuple

from . import _library


class View(NamedTuple):
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in elements
    device: tuple[int, int] = (_library.CPU, 0)


def row_major(shape):
    return tuple(range(len(shape)))


def memory_order(view):
    """The axes from the outermost to the innermost. One of stride 0, which says nothing, stays before its neighbour."""
    steps = []
    for stride in reversed(view.strides):
        steps.insert(0, abs(stride) or (steps[0] if steps else 0))
    return tuple(sorted(row_major(view.shape), key=lambda axis: -steps[axis]))


def packed_strides(shape, order):
    strides = [0] * len(shape)
    step = 1
    for axis in reversed(order):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return tuple(strides)


def _in_elements(strides, itemsize):
    if any(stride % itemsize for stride in strides):
        raise ValueError(f"strides of {strides} bytes are no multiples of the element's {itemsize} bytes")
    return tuple(stride // itemsize for stride in strides)


def _permuted(empty, shape, dtype, order):
    """Like empty(shape, dtype), with its axes in memory in the given order."""
    if order == row_major(shape):
        return partial(empty, shape, dtype)
    stored = tuple(shape[axis] for axis in order)
    back = tuple(order.index(axis) for axis in range(len(order)))
    return lambda: empty(stored, dtype).transpose(back)


def _numpy_dtype_name(dtype):
    return dtype.name if dtype.isnative else f"{dtype.name} of the other byte order"


class Kind:
    row_major = False  # whether results are row-major, whatever the memory order of the input
    index_dtype = "int64"

    @staticmethod
    def why_not_writable(out):
        """The reason, if there is one."""


class NumPy(Kind):
    """numpy.ndarray. bfloat16 is ml_dtypes'."""

    def __init__(self, numpy):
        self.numpy = numpy
        self.pointer = _numpy_pointer(numpy)

    @staticmethod
    def layout(x):
        return x.dtype, x.shape, x.strides

    @staticmethod
    def view(layout):
        dtype, shape, strides = layout
        return View(_numpy_dtype_name(dtype), shape, _in_elements(strides, dtype.itemsize))

    def maker(self, layout, dtype, shape, order):
        like = layout[0]
        return _permuted(self.numpy.empty, shape, like if dtype == like.name else self.numpy.dtype(dtype), order)

    @staticmethod
    def why_not_writable(out):
        return None if out.flags.writeable else "the array is read-only"


def _numpy_pointer(numpy):
    """How to ask an array for its address. NumPy's C ABI has it first behind the object's header (PyArray_DATA), where
    reading it takes a fraction of what __array_interface__ does; it is read there if that is seen to hold."""
    from_address, header = ctypes.c_void_p.from_address, object.__basicsize__

    def asked(x):
        return x.__array_interface__["data"][0]

    def read(x):
        return from_address(id(x) + header).value

    probe = numpy.empty((2, 3), numpy.float32)[::-1, 1:]
    return read if sys.implementation.name == "cpython" and read(probe) == asked(probe) else asked


class PyTorch(Kind):
    """torch.Tensor, on the CPU or a CUDA device, with the current stream and its caching allocator."""

    def __init__(self, torch):
        self.torch = torch
        self.pointer = torch.Tensor.data_ptr
        grad_enabled = torch.is_grad_enabled
        # The last two are no part of the layout, but reasons to refuse it.
        self.layout = lambda x: (
            x.dtype,
            x.shape,
            x.stride(),
            x.device,
            x.requires_grad and grad_enabled(),
            x.is_neg(),
        )

    def view(self, layout):
        dtype, shape, strides, device, requires_grad, negated = layout
        if requires_grad:
            raise ValueError("the tensor requires grad, which backpass does not record; expected x.detach()")
        if negated:
            raise ValueError("the tensor is a lazy negation; expected x.resolve_neg()")
        devices = {"cpu": _library.CPU, "cuda": _library.CUDA}
        if device.type not in devices:
            raise NotImplementedError(f"the tensor is on {device}, expected the CPU or a CUDA device")
        return View(str(dtype)[len("torch.") :], tuple(shape), strides, (devices[device.type], device.index or 0))

    def maker(self, layout, dtype, shape, order):
        strides = packed_strides(shape, order)
        # Cheaper than `empty`, also for what is row-major.
        return partial(self.torch.empty_strided, shape, strides, dtype=getattr(self.torch, dtype), device=layout[3])

    def stream(self, x):
        return self.torch.cuda.current_stream(x.device).cuda_stream

    def memory(self, x, size):
        return self.torch.empty(size, dtype=self.torch.uint8, device=x.device)

    def capturing(self, x):
        return self.torch.cuda.is_current_stream_capturing()


class CuPy(Kind):
    """cupy.ndarray, with the current stream and CuPy's memory pool. The array's device need not be the current one."""

    def __init__(self, cupy):
        self.cupy = cupy

    @staticmethod
    def layout(x):
        return x.dtype, x.shape, x.strides, x.data.device_id

    @staticmethod
    def view(layout):
        dtype, shape, strides, ordinal = layout
        return View(_numpy_dtype_name(dtype), shape, _in_elements(strides, dtype.itemsize), (_library.CUDA, ordinal))

    @staticmethod
    def pointer(x):
        return x.data.ptr

    def _empty(self, ordinal, shape, dtype):
        with self.cupy.cuda.Device(ordinal):
            return self.cupy.empty(shape, dtype)

    def maker(self, layout, dtype, shape, order):
        like, ordinal = layout[0], layout[3]
        dtype = like if dtype == like.name else dtype
        return _permuted(partial(self._empty, ordinal), shape, dtype, order)

    def stream(self, x):
        with self.cupy.cuda.Device(x.data.device_id):
            return self.cupy.cuda.get_current_stream().ptr

    def memory(self, x, size):
        return self._empty(x.data.device_id, size, "uint8")

    def capturing(self, x):
        with self.cupy.cuda.Device(x.data.device_id):
            return self.cupy.cuda.get_current_stream().is_capturing()


class Jax(Kind):
    """jax.Array on one device. Such arrays cannot be written: XLA makes the result and lends it (see JaxPlan)."""

    row_major = True

    def __init__(self, jax):
        self.jax = jax

    @property
    def index_dtype(self):
        return "int64" if self.jax.config.jax_enable_x64 else "int32"

    @staticmethod
    def why_not_writable(out):
        return "JAX arrays cannot be written, expected none"

    @staticmethod
    def layout(x):
        return x.dtype, x.shape, x.sharding

    @staticmethod
    def view(layout):
        dtype, shape, sharding = layout
        if len(sharding.device_set) != 1:
            raise NotImplementedError("the array is spread over several devices, expected one")
        (device,) = sharding.device_set
        devices = {"cpu": _library.CPU, "gpu": _library.CUDA}
        if device.platform not in devices:
            raise NotImplementedError(f"the array is on {device}, expected the CPU or a CUDA device")
        place = (devices[device.platform], device.local_hardware_id if device.platform == "gpu" else 0)
        # XLA hands arrays over packed and row-major, however it keeps them.
        return View(dtype.name, shape, packed_strides(shape, row_major(shape)), place)

    def maker(self, layout, dtype, shape, order):
        """What XLA shall make."""
        return partial(self.jax.ShapeDtypeStruct, shape, dtype)


# ---- Any other array -------------------------------------------------------------------------------------


class _DLTensor(ctypes.Structure):
    """The beginning of every DLManagedTensor of dlpack.h."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("type_code", ctypes.c_uint8),
        ("type_bits", ctypes.c_uint8),
        ("type_lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]

_DLPACK_CPU = 1
_DLPACK_TYPES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}


class Seen:
    """An array of an unknown kind, looked at: its layout, its address, and itself, with what it exported."""

    __slots__ = ("array", "layout", "pointer", "stream", "export")

    def __init__(self, array, view, pointer, stream, export):
        namespace = array.__array_namespace__() if hasattr(array, "__array_namespace__") else None
        self.array = array
        self.layout = (view, type(array), namespace, getattr(array, "device", None))
        self.pointer = pointer
        self.stream = stream
        self.export = export


def see(x):
    """An array in host memory is asked for DLPack, one on a CUDA device for `__cuda_array_interface__`, which alone
    tells on which stream to go on."""
    if hasattr(x, "__cuda_array_interface__"):
        return _see_cuda(x)
    if x.__dlpack_device__()[0] != _DLPACK_CPU:
        raise NotImplementedError(
            f"{type(x).__name__}: is on a device and has no __cuda_array_interface__, which would name the stream"
        )
    capsule = x.__dlpack__()
    view, pointer = dlpack(capsule)
    return Seen(x, view, pointer, None, capsule)


def dlpack(capsule):
    """The view and the address of what an array exported by `__dlpack__`. The capsule stays the caller's."""
    tensor = _DLTensor.from_address(_capsule_pointer(capsule, b"dltensor"))
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else packed_strides(shape, row_major(shape))
    dtype = f"{_DLPACK_TYPES.get(tensor.type_code, f'type {tensor.type_code} of ')}{tensor.type_bits}"
    if tensor.type_lanes != 1:
        dtype += f"x{tensor.type_lanes}"
    return View(dtype, shape, strides), (tensor.data or 0) + tensor.byte_offset


def _see_cuda(x):
    interface = x.__cuda_array_interface__
    if interface.get("mask") is not None:
        raise NotImplementedError(f"{type(x).__name__}: has a mask, expected none")
    typestr = interface["typestr"]
    itemsize = int(typestr[2:])
    shape, strides = tuple(interface["shape"]), interface.get("strides")
    strides = packed_strides(shape, row_major(shape)) if strides is None else _in_elements(strides, itemsize)
    dtype = f"{ {'f': 'float', 'i': 'int', 'u': 'uint'}.get(typestr[1], typestr) }{itemsize * 8}"
    # The protocol does not name the device.
    ordinal = getattr(getattr(x, "device", None), "id", 0)
    view = View(dtype, shape, strides, (_library.CUDA, ordinal))
    return Seen(x, view, interface["data"][0], interface.get("stream"), interface)


class Other(Kind):
    """What any other array was `Seen` to be. Results are made in the array's namespace, as the array API standard has
    it; where it has none, with `out=` only."""

    row_major = True

    @staticmethod
    def layout(x):
        return x.layout

    @staticmethod
    def view(layout):
        return layout[0]

    @staticmethod
    def pointer(x):
        return x.pointer

    @staticmethod
    def maker(layout, dtype, shape, order):
        _, type_, namespace, device = layout
        if namespace is None:
            raise TypeError(f"{type_.__name__}: no way is known to make such an array; expected out=")
        dtype = getattr(namespace, dtype)
        return lambda: see(namespace.empty(shape, dtype=dtype, device=device))

    @staticmethod
    def stream(x):
        return x.stream

    def memory(self, x, size):
        return self.maker(x.layout, "uint8", (size,), (0,))()

    @staticmethod
    def capturing(x):
        return False


# ---- Which kind an array is of ---------------------------------------------------------------------------

_FRAMEWORKS = (
    ("numpy", "ndarray", NumPy),
    ("torch", "Tensor", PyTorch),
    ("cupy", "ndarray", CuPy),
    ("jax", "Array", Jax),
)


class _Kinds(dict):
    """From the type of an array to its kind. A kind of None means that the array has to be looked at by `see`."""

    def __missing__(self, type_):
        numpy = sys.modules.get("numpy")
        if numpy is not None and issubclass(type_, numpy.ma.MaskedArray):
            raise NotImplementedError(f"{type_.__name__}: has a mask, expected an array without one")
        for module, base, kind in _FRAMEWORKS:
            framework = sys.modules.get(module)
            if framework is not None and issubclass(type_, getattr(framework, base, ())):
                # One for all types of a framework: the arrays of a call are compared by it.
                return self.setdefault(type_, self.setdefault(kind, kind(framework)))
        jax = sys.modules.get("jax")
        if jax is not None and issubclass(type_, jax.core.Tracer):
            raise TypeError(f"{type_.__name__}: is traced by JAX; expected an array, outside of jit")
        if hasattr(type_, "__dlpack__") or hasattr(type_, "__cuda_array_interface__"):
            return self.setdefault(type_, None)
        raise TypeError(
            f"{type_.__name__}: is no array, expected one of NumPy, PyTorch, CuPy, JAX, or with DLPack or "
            "__cuda_array_interface__"
        )


KINDS = _Kinds({Seen: Other()})
