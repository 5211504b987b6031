# SPDX-License-Identifier: Apache-2.0
"""The package as it is installed."""

import os
import subprocess
import sys
from pathlib import Path

import backpass
import pytest


def run(program):
    subprocess.run([sys.executable, "-c", program], check=True)


def test_no_framework_is_imported():
    run("import backpass, sys; assert not {'numpy', 'torch', 'cupy', 'jax'} & set(sys.modules)")


def test_a_library_that_is_missing_is_named():
    program = "import os; os.environ['BACKPASS_LIBRARY'] = '/nowhere.so'; import backpass"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stderr.splitlines()[-1]
    assert said.startswith("ImportError: backpass: the library cannot be loaded")
    assert "/nowhere.so" in said


def test_types_are_known():
    assert (Path(backpass.__file__).parent / "py.typed").exists()


@pytest.mark.skipif("BACKPASS_LIBRARY" in os.environ, reason="BACKPASS_LIBRARY names another library")
def test_the_libraries_beside_it_are_loaded():
    maps = Path("/proc/self/maps")
    if not maps.exists():
        pytest.skip("no /proc")
    folder = str(Path(backpass.__file__).parent)
    for name in "libbackpass", "libhwy", "libtbb.":
        loaded = {line.split()[-1] for line in maps.read_text().splitlines() if f"/{name}" in line}
        assert loaded and all(path.startswith(folder) for path in loaded), (name, loaded)


def test_plans_are_destroyed_at_the_end():
    run("import numpy, backpass; x = numpy.ones(3); keep = backpass.relu(x); backpass.max_pool(x[None, None], 2)")
