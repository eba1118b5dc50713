"""Run a script of this folder for each encoder of a run, one after another, each in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from measuring import SETTINGS_FILE


def main(script: str, run: str, *arguments: str) -> None:
    """Run a script once for each encoder.

    script (str): Its file.
    run (str): The folder of the run.
    arguments (str): Its other arguments.
    RAISES (CalledProcessError): If it failed.
    """
    settings = json.loads((Path(run) / SETTINGS_FILE).read_text(encoding="utf8"))
    path = Path(__file__).resolve().with_name(script)
    for number in range(len(settings["encoders"])):
        command = [sys.executable, str(path), run, *arguments, "--encoder", str(number)]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
