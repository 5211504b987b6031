#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a call from Python costs: each operator on arrays of 1 KiB, beside NumPy's own ufunc and, where it is installed,
PyTorch's operators. Prints nanoseconds a call, the least of several rounds."""

import platform
import re
import timeit
from pathlib import Path

import backpass
import numpy as np

ROUNDS, CALLS = 15, 5000


def nanoseconds(call):
    call()
    return min(timeit.repeat(call, number=CALLS, repeat=ROUNDS)) / CALLS * 1e9


def calls(x, y):
    """The operators on one kind of array: x has 1 KiB, y a quarter of it."""
    window = dict(offsets=(0, 0, 4, 4), sizes=(1, 1, 8, 8))
    winners = backpass.max_pool(x, 2, winners="compact")[1]
    return {
        "relu": lambda: backpass.relu(x),
        "relu, out=": lambda: backpass.relu(x, out=x),
        "relu_grad": lambda: backpass.relu_grad(x, x),
        "max_pool": lambda: backpass.max_pool(x, 2),
        "max_pool_grad, x": lambda: backpass.max_pool_grad(y, x=x, window=2),
        "max_pool_grad, winners": lambda: backpass.max_pool_grad(y, winners=winners, x_shape=(1, 1, 16, 16), window=2),
        "resample": lambda: backpass.resample(y, shape=(1, 1, 16, 16)),
        "resample_grad": lambda: backpass.resample_grad(x, x_shape=(1, 1, 8, 8)),
        "slice": lambda: backpass.slice(x, **window),
        "slice_grad": lambda: backpass.slice_grad(y, x_shape=(1, 1, 16, 16), **window),
    }


def show(title, table):
    print(title)
    for name, call in table.items():
        print(f"  {name:24}{nanoseconds(call):8.0f} ns")


def machine():
    cpuinfo = Path("/proc/cpuinfo")
    names = re.findall(r"^model name\s*: (.*)", cpuinfo.read_text(), re.M) if cpuinfo.exists() else []
    return f"{names[0] if names else platform.machine()}, Python {platform.python_version()}"


def main():
    print(machine())
    x = np.linspace(-1, 1, 256, dtype=np.float32).reshape(1, 1, 16, 16)
    y = np.ascontiguousarray(x[:, :, :8, :8])
    show(f"backpass {backpass.__version__} on NumPy arrays of {x.nbytes} bytes", calls(x.copy(), y))
    show(f"NumPy {np.__version__}", {"maximum(x, 0)": lambda: np.maximum(x, 0), "add(x, x)": lambda: np.add(x, x)})
    try:
        import torch
    except ImportError:
        print("PyTorch is not installed")
        return
    torch_x, torch_y = torch.from_numpy(x.copy()), torch.from_numpy(y)
    show("backpass on PyTorch tensors", calls(torch_x.clone(), torch_y))
    pool, resize = torch.nn.functional.max_pool2d, torch.nn.functional.interpolate
    with torch.no_grad():
        show(
            f"PyTorch {torch.__version__}",
            {
                "relu": lambda: torch.relu(torch_x),
                "max_pool2d": lambda: pool(torch_x, 2),
                "interpolate": lambda: resize(torch_y, size=(16, 16), mode="bilinear"),
            },
        )


if __name__ == "__main__":
    main()
