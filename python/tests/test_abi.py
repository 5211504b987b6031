# SPDX-License-Identifier: Apache-2.0
"""The structs and values that Python has are those of backpass.h."""

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import backpass
import pytest
from backpass import _library

HEADER = Path(__file__).parents[2] / "include" / "backpass" / "backpass.h"


def c_name(struct):
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", struct.__name__).lower()
    return f"bp_{name}_desc" if struct in (*_library.KINDS, _library.Tensor) else f"bp_{name}"


STRUCTS = [
    value
    for name, value in vars(_library).items()
    if isinstance(value, type) and issubclass(value, ctypes.Structure) and name[0] != "_" and name != "Structure"
]


def fields(struct):
    return [name for base in reversed(struct.__mro__) for name, _ in vars(base).get("_fields_", ())]


def test_structs_have_the_fields_of_the_header(tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    lines, expected = [], []
    for struct in STRUCTS:
        lines.append(f'  printf("%zu\\n", sizeof({c_name(struct)}));')
        expected.append(ctypes.sizeof(struct))
        for name in fields(struct):
            lines.append(f'  printf("%zu\\n", offsetof({c_name(struct)}, {name}));')
            expected.append(getattr(struct, name).offset)
    source = tmp_path / "fields.c"
    source.write_text(
        "#include <backpass/backpass.h>\n#include <stdio.h>\nint main(void) {\n" + "\n".join(lines) + "\n}\n"
    )
    subprocess.run([compiler, "-I", HEADER.parents[1], source, "-o", tmp_path / "fields"], check=True)
    found = subprocess.run([tmp_path / "fields"], check=True, capture_output=True, text=True).stdout.split()
    assert list(map(int, found)) == expected


def test_values_are_those_of_the_header():
    header = HEADER.read_text()
    values = {name: int(value) for name, value in re.findall(r"\b(BP_[A-Z0-9_]+) = (\d+)", header)}
    short = {"float": "F", "bfloat": "BF", "int": "I", "uint": "U"}
    for name, value in _library.DTYPES.items():
        kind, bits = re.fullmatch(r"([a-z]+)(\d+)", name).groups()
        assert values[f"BP_{short[kind]}{bits}"] == value
    for struct, value in _library.KINDS.items():
        assert values[c_name(struct).upper().replace("_DESC", "")] == value
    for prefix, choices in (
        ("BP_NAN_", _library.NAN),
        ("BP_WINNERS_", _library.WINNERS),
        ("BP_", _library.MODES),
        ("BP_ROUND_", _library.ROUNDINGS),
        ("BP_", _library.CONVENTIONS),
        ("BP_DEVICE_", {"cpu": _library.CPU, "cuda": _library.CUDA}),
    ):
        for name, value in choices.items():
            assert values[prefix + name.upper().replace("-", "_")] == value
    exceptions = {"INVALID_ARGUMENT": ValueError, "UNSUPPORTED": NotImplementedError, "OUT_OF_MEMORY": MemoryError}
    for name in (*exceptions, "BACKEND_ERROR", "INTERNAL"):
        assert type(_library.failure(values[f"BP_{name}"])) is exceptions.get(name, RuntimeError)
    version = ".".join(re.findall(r"#define BP_VERSION_\w+ (\d+)", header))
    assert backpass.__version__ == version
