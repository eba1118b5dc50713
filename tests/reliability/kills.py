"""Kill processes that edit a linker and save it in place, at random operations: `python kills.py FOLDER KILLS`.

Not in the process of the tests: this one computes nothing, so that its forks miss no threads.
"""

import os
import random
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from injection import kill, watch
from worlds import list_unfinished, make_encoder, make_linker, make_terminology

EDITS = 4


def in_child(function: Callable[..., Any], *args: Any) -> bool:
    """Call a function in a forked process. Return whether it came to its end; if not, the process was killed."""
    child = os.fork()
    if not child:
        try:
            function(*args)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, -signal.SIGKILL), code
    return code == 0


def start(folder: Path) -> None:
    encoder = make_encoder(folder.with_name("encoder"), 1)
    make_linker(terminology=make_terminology("K"), encoder=encoder).to_disk(folder / "work")


def list_edits(folder: Path) -> list[str]:
    linker = make_linker().from_disk(folder / "work")
    found = [id_ for id_ in linker.terminology.concepts["id"] if id_.startswith("EDIT")]
    assert all(linker.find([f"edit number {id_[4:]}"])[0][0]["score"] > 0.999 for id_ in found[-1:])
    return found


def edit(folder: Path, at: int | None = None) -> None:
    """Add a concept and save, again and again. `saved` gets a letter for each save, `points` their operations."""
    first, linker = len(list_edits(folder)), make_linker().from_disk(folder / "work")
    with watch(folder / "work", at, kill) as watched:
        for number in range(first, first + EDITS):
            linker.add_names([(f"EDIT{number}", f"edit number {number}")])
            linker.to_disk(folder / "work")
            with (folder / "saved").open("a") as file:
                file.write("x")
    (folder / "points").write_text(str(len(watched.operations)))


def look(folder: Path) -> None:
    """The folder has all edits whose save has ended, in order, and perhaps the one that was being saved."""
    n_saved = len((folder / "saved").read_text()) if (folder / "saved").exists() else 0
    found = list_edits(folder)
    assert found == [f"EDIT{number}" for number in range(len(found))] and len(found) - n_saved in (0, 1), found
    edit(folder)
    assert len(list_edits(folder)) == len(found) + EDITS
    assert not list_unfinished(folder)


def main(folder: Path, n_kills: int) -> None:
    in_child(start, folder / "start")
    shutil.copytree(folder / "start", folder / "whole")
    in_child(edit, folder / "whole")
    n_points = int((folder / "whole" / "points").read_text())
    for at in sorted(random.Random(0).sample(range(n_points), n_kills)):
        killed = folder / f"killed-{at}"
        shutil.copytree(folder / "start", killed)
        assert not in_child(edit, killed, at), f"point {at} of {n_points} was not reached"
        in_child(look, killed)
        print(f"killed at {at} of {n_points}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
