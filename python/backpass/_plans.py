# SPDX-License-Identifier: Apache-2.0
"""From a call to its plan, a created operator that is kept for the next call alike, and the run of it."""

import ctypes
import struct
import threading
from functools import lru_cache
from typing import Any, Callable

from . import _library
from ._arrays import KINDS, Jax, View, dlpack, memory_order, packed_strides, row_major, see

# So many plans are kept, and the longest unused goes first. One that runs is kept alive by its caller.
KEPT_PLANS = 1024
# A larger workspace is made for its call; a smaller one stays with the thread.
KEPT_WORKSPACE_BYTES = 64 << 20

# ---- Problems --------------------------------------------------------------------------------------------


class Description:
    """An operator as its callers see it: its name, those of its arrays, and how a problem becomes a desc."""

    def __init__(self, name, labels, absent, fill):
        self.name = name
        self.labels = labels
        self.absent = absent  # null slots before the first array
        self.fill = fill


def describes(name, *labels, absent=0):
    """Makes a `Description` of a function fill(problem, *views of the arrays, *parameters) that returns a desc."""
    return lambda fill: Description(name, labels, absent, fill)


class Problem:
    """What a call asks for, while its desc is filled in."""

    def __init__(self, description, kind, layouts, outs):
        self.description = description
        self.kind = kind
        self.like = layouts[0]
        self.outs = outs
        self.outputs = []
        self.makers = []
        self.check = False
        self.device = None
        self.inputs = [self._view(label, layout) for label, layout in zip(description.labels, layouts)]

    def refuse(self, what, exception=ValueError):
        raise exception(f"{self.description.name}: {what}") from None

    def require_count(self, label, found, expected, one="entry", many="entries"):
        if found != expected:
            self.refuse(f"{label}: has {found} {one if found == 1 else many}, expected {expected}")

    def _view(self, label, layout):
        try:
            view = self.kind.view(layout)
        except (ValueError, NotImplementedError) as error:
            self.refuse(f"{label}: {error}", type(error))
        if view.dtype not in _library.DTYPES:
            expected = ", ".join(_library.DTYPES)
            self.refuse(f"{label}: type is {view.dtype}, expected one of {expected}", NotImplementedError)
        if self.device is None:
            self.device = view.device
        if view.device != self.device:
            found, expected = (f"{('cpu', 'cuda')[kind]}:{ordinal}" for kind, ordinal in (view.device, self.device))
            self.refuse(f"{label}: is on {found}, expected {expected}, where {self.description.labels[0]} is")
        return view

    def out_shape(self):
        """That of the first output, where `out` gives it."""
        return None if self.outs is None else self._view("out", self.outs[0]).shape

    @staticmethod
    def tensor(view):
        # An array without axes is one element.
        sizes, strides = view.shape or (1,), view.strides or (1,)
        return ctypes.pointer(
            _library.Tensor(
                dtype=_library.DTYPES[view.dtype],
                rank=len(sizes),
                sizes=_library.int64s(sizes),
                strides=_library.int64s(strides),
            )
        )

    def output(self, label, dtype, shape):
        """The next output: as `out` has it, or of this type and shape, in the memory order of the first input."""
        if self.outs is not None and len(self.outputs) < len(self.outs):
            view = self._view(label, self.outs[len(self.outputs)])
        else:
            first = self.inputs[0]
            alike = len(shape) == len(first.shape) and not self.kind.row_major
            order = memory_order(first) if alike else row_major(shape)
            view = View(dtype, shape, packed_strides(shape, order), self.device)
            self.makers.append(self.kind.maker(self.like, dtype, shape, order))
        self.outputs.append(view)
        return self.tensor(view)


# ---- Plans -----------------------------------------------------------------------------------------------


class _Thread(threading.local):
    """What each thread has of its own."""

    plan = None  # the last that ran
    workspace = b""


_thread = _Thread()
_captured: set = set()  # plans that a CUDA graph may replay: they are never destroyed


def _host_workspace(size):
    workspace = _thread.workspace
    if len(workspace) < size:
        workspace = ctypes.create_string_buffer(size)
        if size <= KEPT_WORKSPACE_BYTES:
            _thread.workspace = workspace
    return workspace


class Plan:
    """A created operator. It is called, from any thread, with arrays of the layouts that it was made for."""

    handle = None

    def __init__(self, problem, desc, threads):
        self.handle = _library.create(desc, _library.Device(*problem.device), threads)
        self.workspace_size = _library.workspace_size(self.handle)
        self.on_host = problem.device[0] == _library.CPU
        self.check = problem.check
        self.kind = problem.kind

        absent, present = problem.description.absent, len(problem.inputs)
        self.input_count = ctypes.c_size_t(absent + present)
        self.pack_inputs = struct.Struct(f"{absent * struct.calcsize('P')}x{present}P").pack
        self.output_count = ctypes.c_size_t(len(problem.outputs))
        self.pack_outputs = struct.Struct(f"{len(problem.outputs)}P").pack
        self.single = len(problem.outputs) == 1
        self.makers = problem.makers

    def __del__(self, destroy=_library.destroy):  # a default, for at the interpreter's end the module is empty
        if self.handle is not None:
            destroy(self.handle)

    def __call__(self, first, second, out):
        pointer = self.kind.pointer
        if self.single:
            if out is None:
                out = self.makers[0]()
            outputs = self.pack_outputs(pointer(out))
        else:
            if out is None:
                out = tuple(make() for make in self.makers)
            outputs = self.pack_outputs(*map(pointer, out))
        if second is None:
            inputs = self.pack_inputs(pointer(first))
        else:
            inputs = self.pack_inputs(pointer(first), pointer(second))

        if self.on_host:
            workspace = _host_workspace(self.workspace_size) if self.workspace_size else None
            status = _library.run(self.handle, inputs, self.input_count, outputs, self.output_count, workspace, None)
        else:
            status = self._run_on_device(first, inputs, outputs)
        if status:
            raise _library.failure(status)
        return out

    def _run_on_device(self, first, inputs, outputs):
        kind, size = self.kind, self.workspace_size
        # The frameworks' allocators follow the stream: the memory may go back before the device is done with it.
        workspace = kind.memory(first, size) if size else None
        if kind.capturing(first):
            _captured.add(self)
        return self._launch(inputs, outputs, kind.pointer(workspace) if size else None, kind.stream(first))

    def _launch(self, inputs, outputs, workspace, stream):
        """The run, and the answer to whether its winners were wrong, if that is wanted, given two addresses."""
        where = ctypes.c_void_p(workspace), ctypes.c_void_p(stream)
        status = _library.run(self.handle, inputs, self.input_count, outputs, self.output_count, *where)
        return _library.check(self.handle, *where) if self.check and not status else status


class JaxPlan(Plan):
    """XLA makes the results, and a workspace as one more of them, and lends them to a callback on its own stream."""

    def __init__(self, problem, desc, threads):
        super().__init__(problem, desc, threads)
        results = [make() for make in self.makers]
        if self.workspace_size:
            results.append(problem.kind.maker(problem.like, "uint8", (self.workspace_size,), (0,))())
        from jax.experimental.buffer_callback import buffer_callback

        self.compute = buffer_callback(self._write, tuple(results))

    def _write(self, context, results, *arrays):
        inputs = self.pack_inputs(*map(_lent_pointer, arrays))
        outputs = self.pack_outputs(*map(_lent_pointer, results[: len(self.makers)]))
        workspace = _lent_pointer(results[-1]) if self.workspace_size else None
        if status := self._launch(inputs, outputs, workspace, None if self.on_host else context.stream):
            raise _library.failure(status)

    def __call__(self, first, second, out):
        results = self.compute(first) if second is None else self.compute(first, second)
        return results[0] if self.single else tuple(results[: len(self.makers)])


def _lent_pointer(buffer):
    return dlpack(buffer.__dlpack__())[1]


@lru_cache(maxsize=KEPT_PLANS)
def _find(description, kind, parameters, first, second, outs, threads):
    """The plan for arrays of these layouts: the arguments are its key."""
    problem = Problem(description, kind, (first,) if second is None else (first, second), outs)
    desc = description.fill(problem, *problem.inputs, *parameters)
    if outs is not None:
        problem.require_count("out", len(outs), len(problem.outputs), "array", "arrays")
    return (JaxPlan if isinstance(kind, Jax) else Plan)(problem, desc, threads or 0)


def clear():
    """Forgets all plans, and the workspace of this thread."""
    _find.cache_clear()
    _thread.plan = None
    _thread.workspace = b""


# ---- Calls -----------------------------------------------------------------------------------------------


def run(description, parameters, first, second, out, threads):
    """Finds or makes the plan of a call, runs it, and returns its output, or a tuple of them."""
    kind = KINDS[type(first)]
    if second is not None and KINDS[type(second)] is not kind:
        _refuse_mixture(description, description.labels[1], second, first)
    if kind is None:
        return _run_seen(description, parameters, first, second, out, threads)
    layout = kind.layout
    a = layout(first)
    b = None if second is None else layout(second)
    outs = None if out is None else _out_layouts(description, kind, out, first)
    try:
        plan = _find(description, kind, parameters, a, b, outs, threads)
    except TypeError:  # lists and arrays among the parameters are no keys
        plan = None
    if plan is None:
        plan = _find(description, kind, _frozen(parameters), a, b, outs, threads)
    _thread.plan = plan
    return plan(first, second, out)


def _run_seen(description, parameters, first, second, out, threads):
    several = type(out) is tuple
    outs = None if out is None else tuple(see(o) for o in out) if several else see(out)
    result = run(description, parameters, see(first), None if second is None else see(second), outs, threads)
    if out is not None:
        return out
    return tuple(o.array for o in result) if type(result) is tuple else result.array


def _out_layouts(description, kind, out, first):
    if type(out) is tuple:
        return tuple(_out_layouts(description, kind, each, first)[0] for each in out)
    if KINDS[type(out)] is not kind:
        _refuse_mixture(description, "out", out, first)
    if refusal := kind.why_not_writable(out):
        raise ValueError(f"{description.name}: out: {refusal}")
    return (kind.layout(out),)


def _refuse_mixture(description, label, found, first):
    raise TypeError(
        f"{description.name}: {label}: is of type {type(found).__name__}, expected {type(first).__name__} as "
        f"{description.labels[0]} is"
    )


def _frozen(value):
    if hasattr(value, "tolist"):
        value = value.tolist()
    return tuple(map(_frozen, value)) if isinstance(value, (list, tuple)) else value


def explain(function: Callable, *arguments: Any, **named: Any) -> str:
    """Runs function(*arguments, **named) and returns, as text, the plan that ran: the problem, the implementation, why
    faster ones refused, the bytes that must move and the workspace.

    >>> print(explain(relu, np.ones(8, np.float32)))  # doctest: +ELLIPSIS
    problem: relu --dtype f32 --x-shape 8
    implementation: ...
    bytes: 64
    workspace: 0
    """
    function(*arguments, **named)
    return _library.explain(_thread.plan.handle).rstrip()
