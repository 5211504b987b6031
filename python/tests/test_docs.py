# SPDX-License-Identifier: Apache-2.0
"""The examples of the docstrings and of the pages give what they say."""

import doctest
import re
import shutil
import subprocess
from pathlib import Path

import backpass
import numpy as np
import pytest
from backpass import _operators, _plans

ROOT = Path(__file__).parents[2]
# The docstrings speak of np, and of the operators by their bare names.
NAMES = {"np": np, **{name: getattr(backpass, name) for name in backpass.__all__}}


@pytest.mark.parametrize("module", [backpass, _operators, _plans])
def test_docstrings(module):
    failed, tried = doctest.testmod(module, extraglobs=NAMES)
    assert tried and not failed


@pytest.mark.parametrize("page", ["README.md", "docs/from_numpy.md", "docs/from_cpp_and_directml.md"])
def test_pages(page):
    failed, tried = doctest.testfile(str(ROOT / page), module_relative=False)
    assert tried and not failed


def test_programs_of_the_pages(tmp_path):
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    programs = re.findall(r"^```cpp\n(.*?)^```$", (ROOT / "docs/from_cpp_and_directml.md").read_text(), re.M | re.S)
    assert len(programs) == 2
    for program in programs:
        source = tmp_path / "program.cpp"
        source.write_text(program)
        options = ["-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I", ROOT / "include"]
        subprocess.run([compiler, *options, source], check=True)


def test_every_operator_has_an_example():
    for name in backpass.__all__:
        assert ">>> " in getattr(backpass, name).__doc__, name
