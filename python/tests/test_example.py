# SPDX-License-Identifier: Apache-2.0
"""The picture in the tree is the one that its script draws."""

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples" / "python"


def test_the_picture_is_what_the_script_draws(tmp_path):
    drawn = tmp_path / "drawn.svg"
    subprocess.run([sys.executable, EXAMPLES / "gradient_flow.py", drawn], check=True)
    assert drawn.read_text() == (EXAMPLES / "gradient_flow.svg").read_text()
