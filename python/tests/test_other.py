# SPDX-License-Identifier: Apache-2.0
"""Arrays of no framework that is known by name: through DLPack, and the array API standard for the results."""

import array_api_strict as xp
import backpass
import numpy as np
import pytest
from support import assert_same_bits, numbers


class Exporter:
    """DLPack and nothing else."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **named):
        return self.array.__dlpack__(**named)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_results_are_of_the_same_kind():
    x = numbers((1, 2, 6, 6), np.float32)
    y, winners = backpass.max_pool(xp.asarray(x), 2, winners="compact")
    assert type(y) is type(winners) is type(xp.asarray(x))
    assert_same_bits(np.asarray(y), backpass.max_pool(x, 2))
    dx = backpass.max_pool_grad(y, winners=winners, x_shape=x.shape, window=2)
    assert_same_bits(np.asarray(dx), backpass.max_pool_grad(np.asarray(y), x=x, window=2))


@pytest.mark.parametrize("index", [np.s_[:], np.s_[::-1], np.s_[:, ::2], np.s_[:0], np.s_[0, 0, ...]])
def test_nothing_is_copied(bound, index):
    x = numbers((4, 6), np.float64)[index]
    out = np.full(x.shape, 9.0)
    result = Exporter(out)
    assert backpass.relu(Exporter(x), out=result) is result
    assert bound == [a.__array_interface__["data"][0] for a in (x, out)] or x.size == 0
    assert_same_bits(out, np.asarray(np.maximum(x, 0)))


def test_refusals():
    x = Exporter(np.zeros(3))
    with pytest.raises(TypeError, match=r"^Exporter: no way is known to make such an array; expected out=$"):
        backpass.relu(x)
    with pytest.raises(TypeError, match=r"^relu_grad: dy: is of type ndarray, expected Exporter as x is$"):
        backpass.relu_grad(x, x.array)
    with pytest.raises(NotImplementedError, match=r"^relu: x: type is complex64, "):
        backpass.relu(Exporter(np.zeros(3, np.complex64)), out=x)


def test_an_array_on_a_device_has_to_name_its_stream():
    class Far(Exporter):
        def __dlpack_device__(self):
            return (2, 0)

    with pytest.raises(NotImplementedError, match=r"^Far: is on a device and has no __cuda_array_interface__, "):
        backpass.relu(Far(np.zeros(3)))


def test_the_cuda_array_interface_is_read():
    """A problem for a device, as far as it goes without one."""

    class OnDevice:
        def __init__(self, **changes):
            self.changes = changes

        @property
        def __cuda_array_interface__(self):
            known = dict(shape=(2, 3), strides=(4, 8), typestr="<f4", data=(4096, False), version=3, stream=1)
            return {**known, **self.changes}

    from backpass import _arrays, _library

    seen = _arrays.see(OnDevice())
    assert seen.layout[0] == _arrays.View("float32", (2, 3), (1, 2), (_library.CUDA, 0))
    assert (seen.pointer, seen.stream) == (4096, 1)
    with pytest.raises(NotImplementedError, match="^OnDevice: has a mask, expected none$"):
        _arrays.see(OnDevice(mask=0))
    with pytest.raises(NotImplementedError, match=r"^relu: x: type is "):
        backpass.relu(OnDevice(typestr="<c8", strides=None), out=OnDevice())
    if _library.device_count(_library.CUDA) == 0:
        with pytest.raises(NotImplementedError, match="(?i)cuda"):
            backpass.relu(OnDevice(), out=OnDevice())
