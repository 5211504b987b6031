# SPDX-License-Identifier: Apache-2.0
"""cuDNN in the race on a CUDA device: peers.h has the protocol. The library is the one that PyTorch brings."""

import ctypes

import torch
from torch_peer import Absent, pooling_arguments, serve

DATA_TYPES = {torch.float32: 0, torch.float64: 1, torch.float16: 2, torch.bfloat16: 9}
POOLING_MAX, POOLING_MAX_DETERMINISTIC = 0, 3
PROPAGATE_NAN = 1
RELU = 1


class Cudnn:
    def __init__(self):
        self.functions = ctypes.CDLL("libcudnn.so.9")
        self.functions.cudnnGetVersion.restype = ctypes.c_size_t
        self.functions.cudnnGetErrorString.restype = ctypes.c_char_p
        self.handle = self.create("cudnnCreate")
        self.call("cudnnSetStream", self.handle, ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))

    def call(self, name, *arguments):
        status = getattr(self.functions, name)(*arguments)
        if status != 0:
            raise Absent(f"{name}: {self.functions.cudnnGetErrorString(status).decode()}")

    def create(self, name):
        made = ctypes.c_void_p()
        self.call(name, ctypes.byref(made))
        return made

    def tensor(self, t):
        descriptor = self.create("cudnnCreateTensorDescriptor")
        shape, strides = list(t.shape), list(t.stride())
        while len(shape) < 4:  # an axis of 1 before the last changes nothing
            shape.insert(-1, 1)
            strides.insert(-1, strides[-1] * shape[-1])
        kind = DATA_TYPES[t.dtype]
        self.call("cudnnSetTensorNdDescriptor", descriptor, kind, len(shape), ints(shape), ints(strides))
        return descriptor

    def version(self):
        number = self.functions.cudnnGetVersion()
        return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def ints(values):
    return (ctypes.c_int * len(values))(*values)


def pointer(t):
    return ctypes.c_void_p(t.data_ptr())


def scale(t, value):
    return ctypes.byref((ctypes.c_double if t.dtype == torch.float64 else ctypes.c_float)(value))


def pooling(cudnn, p, mode):
    window, strides, padding, dilations, _ = pooling_arguments(p)
    if any(d != 1 for d in dilations):
        raise Absent("no dilation")
    if len(window) == 1:
        window, strides, padding = [1] + window, [1] + strides, [0] + padding
    descriptor = cudnn.create("cudnnCreatePoolingDescriptor")
    sizes = [ints(values) for values in (window, padding, strides)]
    cudnn.call("cudnnSetPoolingNdDescriptor", descriptor, mode, PROPAGATE_NAN, len(window), *sizes)
    return descriptor


def activation(cudnn):
    descriptor = cudnn.create("cudnnCreateActivationDescriptor")
    cudnn.call("cudnnSetActivationDescriptor", descriptor, RELU, PROPAGATE_NAN, ctypes.c_double(0))
    return descriptor


def forward(cudnn, name, descriptor, x, y):
    """A call that computes y."""
    arguments = (scale(x, 1), cudnn.tensor(x), pointer(x), scale(x, 0), cudnn.tensor(y), pointer(y))

    def call():
        cudnn.call(name, cudnn.handle, descriptor, *arguments)
        return y

    return call


def backward(cudnn, name, descriptor, x, y, dy, dx):
    """A call that computes dx."""
    arguments = (
        scale(x, 1), cudnn.tensor(y), pointer(y), cudnn.tensor(dy), pointer(dy), cudnn.tensor(x), pointer(x),
        scale(x, 0), cudnn.tensor(dx), pointer(dx),
    )

    def call():
        cudnn.call(name, cudnn.handle, descriptor, *arguments)
        return dx

    call.holds = (x, y, dy)  # as long as it may be called
    return call


def operators(cudnn):
    def max_pool(p):
        for mode in (POOLING_MAX, POOLING_MAX_DETERMINISTIC):
            pairs = list(zip(p.tensors("x"), p.tensors("y")))
            yield [forward(cudnn, "cudnnPoolingForward", pooling(cudnn, p, mode), x, y) for x, y in pairs]

    def max_pool_grad(p):
        for mode in (POOLING_MAX, POOLING_MAX_DETERMINISTIC):
            calls = []
            for x, dy, dx in zip(p.tensors("x"), p.tensors("dy"), p.tensors("dx")):
                descriptor, y = pooling(cudnn, p, mode), torch.empty_like(dy)
                forward(cudnn, "cudnnPoolingForward", descriptor, x, y)()
                calls.append(backward(cudnn, "cudnnPoolingBackward", descriptor, x, y, dy, dx))
            yield calls

    def relu(p):
        pairs = list(zip(p.tensors("x"), p.tensors("y")))
        yield [forward(cudnn, "cudnnActivationForward", activation(cudnn), x, y) for x, y in pairs]

    def relu_grad(p):
        calls = []
        for x, dy, dx in zip(p.tensors("x"), p.tensors("dy"), p.tensors("dx")):
            calls.append(backward(cudnn, "cudnnActivationBackward", activation(cudnn), x, torch.relu(x), dy, dx))
        yield calls

    return {"max-pool": max_pool, "max-pool-grad": max_pool_grad, "relu": relu, "relu-grad": relu_grad}


if __name__ == "__main__":
    cudnn = Cudnn()
    serve(f"cuDNN {cudnn.version()}", operators(cudnn))
