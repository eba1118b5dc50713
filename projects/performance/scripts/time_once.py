"""Run a command, and print how long it took and how much memory as JSON. Small itself, and a process of its own.

Linux counts the memory of a process that starts another one as that one's until it has begun, so the one that
measures must be small.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

# ru_maxrss is in bytes on macOS, else in kibibytes.
UNIT = 1 if sys.platform == "darwin" else 1024


def main(*command: str) -> int:
    """Run a command; what it prints is lost, but for errors.

    command (str): The program and its arguments.
    RETURNS (int): Its exit code.
    """
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    cpu = usage.ru_utime + usage.ru_stime
    print(json.dumps({"seconds": seconds, "cpu_seconds": cpu, "peak_bytes": usage.ru_maxrss * UNIT}))
    return process.returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
