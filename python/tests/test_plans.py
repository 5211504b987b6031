# SPDX-License-Identifier: Apache-2.0
"""Plans are kept, bounded, shared by threads and destroyed; the interpreter's lock is free while one runs."""

import ctypes
import gc
import threading
import time

import backpass
import numpy as np
import pytest
from backpass import _library, _plans
from support import assert_same_bits, numbers


@pytest.fixture
def created(monkeypatch):
    """The handles that are alive."""
    alive = set()
    create, destroy = _library.create, _library.destroy

    def count(*arguments):
        handle = create(*arguments)
        alive.add(handle.value)
        return handle

    def release(handle):
        alive.remove(handle.value)
        destroy(handle)

    _plans.clear()
    gc.collect()
    monkeypatch.setattr(_library, "create", count)
    monkeypatch.setattr(_plans.Plan.__del__, "__defaults__", (release,))
    yield alive
    _plans.clear()


def test_a_repeated_call_makes_no_plan(created):
    x = numbers((1, 2, 8, 8), np.float32)
    for _ in range(3):
        backpass.max_pool(x, 2)
        backpass.max_pool(x + 1, window=2, strides=None)
        backpass.max_pool(x, [2, 2])  # a list is as good as a tuple, but another key than a number
    assert len(created) == 2


def test_everything_that_matters_makes_another_plan(created):
    x = numbers((2, 2, 8, 8), np.float32)
    out = np.empty_like(x)
    for n, call in enumerate(
        (
            lambda: backpass.relu(x),
            lambda: backpass.relu(x[:1]),
            lambda: backpass.relu(x.swapaxes(0, 1)),
            lambda: backpass.relu(x.astype(np.float64)),
            lambda: backpass.relu(x, threads=1),
            lambda: backpass.relu(x, out=out),
            lambda: backpass.relu(x, out=out.swapaxes(2, 3)),
            lambda: backpass.relu_grad(x, x),
            lambda: backpass.relu_grad(x, x, nan="pass"),
            lambda: backpass.relu_grad(x, x.swapaxes(0, 1)),
        )
    ):
        call()
        call()
        assert len(created) == n + 1


def test_plans_are_bounded_and_destroyed(created):
    for size in range(1, _plans.KEPT_PLANS + 50):
        backpass.relu(np.zeros(size, np.float32))
    gc.collect()
    assert len(created) == _plans.KEPT_PLANS
    _plans.clear()
    assert not created


def test_a_plan_outlives_the_memory_of_it(created, monkeypatch):
    """A plan that is forgotten while it runs is destroyed after it."""
    run = _library.run

    def forget(handle, *arguments):
        _plans.clear()
        assert handle.value in created
        return run(handle, *arguments)

    monkeypatch.setattr(_library, "run", forget)
    assert backpass.relu(np.float32([-1, 2])).tolist() == [0, 2]


def test_eight_threads_hammer_one_plan(created):
    """One that has a workspace, which each thread must have for itself."""
    named = dict(window=3, strides=1, start_padding=1, end_padding=1)
    x = [numbers((1, 8, 32, 32), np.float32, seed) for seed in range(8)]
    expected = [backpass.max_pool_grad(x[i], x=x[i], **named) for i in range(8)]
    assert _plans._thread.plan.workspace_size > 0
    start, failures = threading.Barrier(8), []

    def hammer(i):
        try:
            start.wait()
            for _ in range(200):
                assert_same_bits(backpass.max_pool_grad(x[i], x=x[i], **named), expected[i])
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=hammer, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(created) == 1


def test_threads_race_to_make_a_plan(created):
    x = numbers((1, 2, 8, 8), np.float32)
    start = threading.Barrier(8)

    def race():
        for window in range(1, 9):
            start.wait()
            backpass.max_pool(x, window)

    threads = [threading.Thread(target=race) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    assert len(created) <= 8 + len(threads)  # the losers of a race may still be the last plans of their threads


def steps_beside_a_run():
    """How often this thread's Python runs while another thread is inside the library."""
    x = np.zeros((1, 1, 4000, 4000), np.float32)
    out = np.empty((1, 1, 8000, 8000), np.float32)
    times, steps = [], []
    run = _library.run

    def timed(*arguments):
        begin = time.perf_counter()
        status = run(*arguments)
        times.append((begin, time.perf_counter()))
        return status

    _library.run = timed
    try:
        thread = threading.Thread(target=backpass.resample, args=(x,), kwargs=dict(out=out, threads=1))
        thread.start()
        while thread.is_alive():
            steps.append(time.perf_counter())
            time.sleep(0.0005)
        thread.join()
    finally:
        _library.run = run
    ((begin, end),) = times
    margin = (end - begin) / 10
    return sum(begin + margin < step < end - margin for step in steps)


def test_the_interpreters_lock_is_free_during_a_run(monkeypatch):
    assert steps_beside_a_run() > 0
    # A library that keeps the lock is found out.
    locked = ctypes.PyDLL(_library._library._name).bp_operator_run
    locked.restype = _library.run.restype
    monkeypatch.setattr(_library, "run", locked)
    assert steps_beside_a_run() == 0


def test_large_workspaces_are_not_kept(monkeypatch):
    monkeypatch.setattr(_plans, "KEPT_WORKSPACE_BYTES", 100)
    _plans.clear()
    x = numbers((1, 8, 32, 32), np.float32)
    backpass.max_pool_grad(x, x=x, window=3, strides=1, start_padding=1, end_padding=1)
    assert _plans._thread.plan.workspace_size > 100
    assert len(_plans._thread.workspace) == 0


def test_explain_names_what_ran():
    text = backpass.explain(backpass.max_pool, np.zeros((1, 1, 8, 8), np.float32), 2, threads=1)
    assert text.startswith("problem: max-pool --dtype f32 --x-shape 1,1,8,8 --y-shape 1,1,4,4 --window 2,2")
    assert "\nimplementation: " in text
