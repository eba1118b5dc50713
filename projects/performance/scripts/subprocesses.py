"""Run a script in a new Python process and read the JSON that it prints last."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import srsly


def run_script(name: str, *arguments: str, cwd: Path | None = None) -> dict[str, Any]:
    """Run a script of this folder.

    name (str): Its file.
    arguments (str): Its arguments.
    cwd (Path | None): The folder to run it in; None for the current one.
    RETURNS (dict): What it printed on its last line.
    RAISES (CalledProcessError): If it failed.
    """
    command = [sys.executable, str(Path(__file__).resolve().with_name(name)), *arguments]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=cwd).stdout
    return srsly.json_loads(output.splitlines()[-1])
