# SPDX-License-Identifier: Apache-2.0
"""JAX arrays on the CPU: no copy in, and results that XLA made."""

import backpass
import ml_dtypes
import numpy as np
import pytest
from support import FLOATS, assert_same_bits, name_of, numbers

jax = pytest.importorskip("jax", reason="JAX is not installed (make test-full installs it)")
jnp = jax.numpy

X_SHAPE = (2, 3, 9, 8)
NAMED = dict(window=3, strides=2, start_padding=1, end_padding=1)


@pytest.mark.parametrize("dtype", FLOATS[1:], ids=name_of)  # float64 has a test of its own
def test_numpys_results(dtype):
    x, dy = numbers(X_SHAPE, dtype), numbers((2, 3, 5, 4), dtype, seed=1)
    jax_x, jax_dy = jnp.asarray(x), jnp.asarray(dy)
    for function, arrays, named in (
        (backpass.relu, (x,), {}),
        (backpass.relu_grad, (x, x), {}),
        (backpass.max_pool, (x,), NAMED),
        (backpass.resample, (x,), dict(shape=(2, 3, 18, 5))),
        (backpass.resample_grad, (dy,), dict(x_shape=X_SHAPE)),
        (backpass.slice, (x, 1, (1, 2, 3, 4)), {}),
        (backpass.slice_grad, (dy,), dict(x_shape=X_SHAPE, offsets=0, sizes=dy.shape)),
    ):
        known = {id(x): jax_x, id(dy): jax_dy}
        found = function(*(known.get(id(a), a) for a in arrays), **named)
        assert isinstance(found, jax.Array)
        assert_same_bits(np.asarray(found), function(*arrays, **named))
    found = backpass.max_pool_grad(jax_dy, x=jax_x, **NAMED)
    assert_same_bits(np.asarray(found), backpass.max_pool_grad(dy, x=x, **NAMED))


def test_winners():
    x = jnp.asarray(numbers(X_SHAPE, np.float32))
    for kind, dtype in ("compact", np.uint8), ("flat", np.int32):
        y, winners = backpass.max_pool(x, winners=kind, **NAMED)
        assert winners.dtype == dtype
        dx = backpass.max_pool_grad(y, winners=winners, x_shape=X_SHAPE, **NAMED)
        assert_same_bits(np.asarray(dx), np.asarray(backpass.max_pool_grad(y, x=x, **NAMED)))


def test_float64():
    with jax.enable_x64(True):
        x = jnp.asarray(numbers(X_SHAPE, np.float64))
        assert_same_bits(np.asarray(backpass.relu(x)), np.maximum(np.asarray(x), 0))
        assert backpass.max_pool(x, 2, winners="flat")[1].dtype == np.int64


def test_nothing_is_copied(bound):
    x = jnp.asarray(numbers((64, 64), np.float32))
    y = backpass.relu(x).block_until_ready()
    assert bound == [x.unsafe_buffer_pointer(), y.unsafe_buffer_pointer()]


def test_results_are_new_arrays():
    """Nothing that JAX holds is written: two results of one plan, and the input, stay apart."""
    x = jnp.asarray(numbers(X_SHAPE, np.float32))
    first, second = backpass.relu(x), backpass.relu(x - 1)
    before = np.array(first)
    jax.block_until_ready(backpass.relu(-x))
    assert_same_bits(np.asarray(first), before)
    assert len({a.unsafe_buffer_pointer() for a in (x, first, second)}) == 3


def test_empty_and_without_axes():
    assert backpass.relu(jnp.zeros((0, 3))).shape == (0, 3)
    assert backpass.relu(jnp.array(-1.0)).shape == ()


def test_bfloat16_is_ml_dtypes():
    assert backpass.relu(jnp.ones(3, jnp.bfloat16)).dtype == ml_dtypes.bfloat16


def test_refusals():
    x = jnp.ones((1, 1, 4, 4))
    with pytest.raises(ValueError, match=r"^relu: out: JAX arrays cannot be written, expected none$"):
        backpass.relu(x, out=x)
    with pytest.raises(TypeError, match=r"is traced by JAX; expected an array, outside of jit"):
        jax.jit(backpass.relu)(x)
    with pytest.raises(ValueError, match=r"^max_pool: window: "):
        backpass.max_pool(x, 9)
    # JAX computes on its own threads, and has one class for what goes wrong there.
    with pytest.raises(RuntimeError, match="max_pool_grad: winners: "):
        winners = jnp.full((1, 1, 2, 2), 99, jnp.uint8)
        jax.block_until_ready(backpass.max_pool_grad(x[..., ::2, ::2], winners=winners, x_shape=x.shape, window=2))
