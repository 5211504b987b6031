# SPDX-License-Identifier: Apache-2.0
"""Arrays on a CUDA device: NumPy's bits, on the current stream, nothing copied, nothing waited for."""

import backpass
import numpy as np
import pytest
from backpass import _arrays, _library, _plans
from support import FLOATS, assert_same_bits, name_of, numbers

if _library.device_count(_library.CUDA) == 0:
    pytest.skip("no CUDA device that libbackpass can use", allow_module_level=True)

pytestmark = pytest.mark.filterwarnings("default")  # the frameworks warn of what is their own

X_SHAPE = (2, 8, 33, 32)
NAMED = dict(window=3, strides=2, start_padding=1, end_padding=1)


class PyTorch:
    def __init__(self):
        self.torch = pytest.importorskip("torch", reason="PyTorch is not installed")
        if not self.torch.cuda.is_available():
            pytest.skip("PyTorch finds no CUDA device")

    def put(self, x):
        if x.dtype.name == "bfloat16":
            return self.torch.from_numpy(x.view(np.int16)).view(self.torch.bfloat16).cuda()
        return self.torch.from_numpy(x).cuda()

    def get(self, x):
        if x.dtype == self.torch.bfloat16:
            return x.view(self.torch.int16).cpu().numpy().view(FLOATS[3])
        return x.cpu().numpy()

    def side_stream(self):
        stream = self.torch.cuda.Stream()
        stream.wait_stream(self.torch.cuda.current_stream())
        return self.torch.cuda.stream(stream), stream.cuda_stream

    def pointer(self, x):
        return x.data_ptr()


class CuPy:
    def __init__(self):
        self.cupy = pytest.importorskip("cupy", reason="CuPy is not installed")

    def put(self, x):
        return self.cupy.asarray(x)

    def get(self, x):
        return self.cupy.asnumpy(x)

    def side_stream(self):
        self.cupy.cuda.Device().synchronize()
        stream = self.cupy.cuda.Stream(non_blocking=True)
        return stream, stream.ptr

    def pointer(self, x):
        return x.data.ptr


class Jax:
    def __init__(self):
        self.jax = pytest.importorskip("jax", reason="JAX is not installed")
        if self.jax.default_backend() != "gpu":
            pytest.skip("JAX finds no CUDA device")

    def put(self, x):
        return self.jax.device_put(x)

    def get(self, x):
        return np.asarray(x)

    def pointer(self, x):
        return x.unsafe_buffer_pointer()


@pytest.fixture(params=[PyTorch, CuPy, Jax], ids=lambda kind: kind.__name__)
def framework(request):
    return request.param()


@pytest.fixture
def streams(monkeypatch):
    """The streams that runs were put on."""
    seen = []
    run = _library.run

    def watch(*arguments):
        seen.append(arguments[-1] and arguments[-1].value)
        return run(*arguments)

    monkeypatch.setattr(_library, "run", watch)
    return seen


def put(framework, dtype, shape, seed=0):
    x = numbers(shape, dtype, seed)
    try:
        on_device = framework.put(x)
    except (TypeError, ValueError) as error:
        pytest.skip(f"no arrays of {name_of(dtype)}: {error}")
    if name_of(dtype) not in str(on_device.dtype):
        pytest.skip(f"{name_of(dtype)} became {on_device.dtype}")
    return x, on_device


def compare(framework, dtype):
    """Every operator, against the CPU."""
    x, gpu_x = put(framework, dtype, X_SHAPE)
    y, winners = backpass.max_pool(x, winners="compact", **NAMED)
    gpu_y, gpu_winners = backpass.max_pool(gpu_x, winners="compact", **NAMED)
    assert type(gpu_y) is type(gpu_x)
    dy, gpu_dy = put(framework, dtype, y.shape, seed=1)
    stored = dict(x_shape=X_SHAPE, **NAMED)
    window = dict(offsets=(0, 1, 2, 3), sizes=(2, 7, 30, 20), strides=(1, -2, 3, 1))
    sliced = backpass.slice(x, **window)
    for found, expected in (
        (gpu_y, y),
        (gpu_winners, winners),
        (backpass.relu(gpu_x), backpass.relu(x)),
        (backpass.relu_grad(gpu_x, gpu_x), backpass.relu_grad(x, x)),
        (backpass.max_pool_grad(gpu_dy, x=gpu_x, **NAMED), backpass.max_pool_grad(dy, x=x, **NAMED)),
        (
            backpass.max_pool_grad(gpu_dy, winners=gpu_winners, check=True, **stored),
            backpass.max_pool_grad(dy, winners=winners, **stored),
        ),
        (backpass.resample(gpu_x, shape=(2, 8, 50, 64)), backpass.resample(x, shape=(2, 8, 50, 64))),
        (backpass.resample_grad(gpu_dy, x_shape=(2, 8, 9, 8)), backpass.resample_grad(dy, x_shape=(2, 8, 9, 8))),
        (backpass.slice(gpu_x, **window), sliced),
        (
            backpass.slice_grad(backpass.slice(gpu_x, **window), x_shape=X_SHAPE, **window),
            backpass.slice_grad(sliced, x_shape=X_SHAPE, **window),
        ),
    ):
        assert_same_bits(framework.get(found), expected)


@pytest.mark.parametrize("dtype", FLOATS, ids=name_of)
def test_the_bits_of_the_cpu(framework, dtype):
    compare(framework, dtype)


@pytest.mark.parametrize("framework", [PyTorch, CuPy], indirect=True)
def test_a_side_stream(framework, streams):
    scope, stream = framework.side_stream()
    with scope:
        compare(framework, np.float32)
    # The CPU's runs, which they are compared with, have none.
    assert {s for s in streams if s is not None} == {stream}


def test_nothing_is_copied(framework, bound):
    _, x = put(framework, np.float32, X_SHAPE)
    y = backpass.relu(x)
    framework.get(y)
    assert bound == [framework.pointer(x), framework.pointer(y)]


def test_a_wrong_winner_is_reported_when_it_is_asked_for(framework):
    _, dy = put(framework, np.float32, (1, 1, 2, 2))
    winners = framework.put(np.full((1, 1, 2, 2), 99, np.uint8))
    named = dict(winners=winners, x_shape=(1, 1, 4, 4), window=2)
    assert not framework.get(backpass.max_pool_grad(dy, **named)).any()
    with pytest.raises((ValueError, RuntimeError), match="max_pool_grad: winners: "):
        framework.get(backpass.max_pool_grad(dy, check=True, **named))


def test_channels_last_and_views():
    torch = PyTorch().torch
    x = torch.randn(2, 8, 32, 32, device="cuda").to(memory_format=torch.channels_last)
    y = backpass.max_pool(x, 2)
    assert y.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(y, torch.nn.functional.max_pool2d(x, 2))
    view = x[:, ::2, 3:, 5:]
    assert torch.equal(backpass.relu(view), torch.relu(view))
    out = torch.empty_like(x)
    assert backpass.relu(x, out=out) is out


def test_a_graph_keeps_its_plans():
    torch = PyTorch().torch
    x = torch.randn(2, 8, 32, 32, device="cuda")
    named = dict(window=3, strides=1, start_padding=1, end_padding=1)
    backpass.max_pool_grad(x, x=x, **named)  # a plan cannot be made while a stream is captured
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dx = backpass.max_pool_grad(x, x=x, **named)
    assert _plans._thread.plan in _plans._captured
    _plans.clear()
    x.copy_(torch.randn_like(x))
    graph.replay()
    assert torch.equal(dx, backpass.max_pool_grad(x, x=x, **named))


def test_two_kinds_of_memory_are_not_mixed():
    torch = PyTorch().torch
    x = torch.ones(3)
    with pytest.raises(ValueError, match=r"^relu_grad: dy: is on cuda:0, expected cpu:0, where x is$"):
        backpass.relu_grad(x, x.cuda())


def test_the_cuda_array_interface():
    """An array that has nothing else, here over one of CuPy's."""

    class Interface:
        def __init__(self, array):
            self.__array = array

        @property
        def __cuda_array_interface__(self):
            return self.__array.__cuda_array_interface__

    cupy = CuPy().cupy
    x, out = cupy.arange(-3, 3, dtype=cupy.float32), cupy.empty(6, cupy.float32)
    backpass.relu(Interface(x), out=Interface(out))
    assert cupy.array_equal(out, cupy.maximum(x, 0))
    assert _arrays.see(Interface(x)).pointer == x.data.ptr
