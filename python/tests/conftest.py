# SPDX-License-Identifier: Apache-2.0
"""What the tests share."""

import os
import struct

import backpass
import pytest
from backpass import _library, _plans


@pytest.fixture
def reference():
    """reference(function, *arguments, **named): what the scalar reference computes."""

    def call(function, *arguments, **named):
        os.environ["BACKPASS_IMPL"] = "reference"
        _plans.clear()
        try:
            assert "implementation: reference" in backpass.explain(function, *arguments, **named)
            return function(*arguments, **named)
        finally:
            del os.environ["BACKPASS_IMPL"]
            _plans.clear()

    return call


@pytest.fixture
def bound(monkeypatch):
    """The addresses that the last run was given: its inputs, then its outputs."""
    addresses = []
    run = _library.run

    def watch(handle, inputs, input_count, outputs, output_count, workspace, stream):
        addresses[:] = (a for pointers in (inputs, outputs) for (a,) in struct.iter_unpack("P", pointers))
        return run(handle, inputs, input_count, outputs, output_count, workspace, stream)

    monkeypatch.setattr(_library, "run", watch)
    return addresses
