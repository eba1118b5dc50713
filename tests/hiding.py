"""Run code in a process of its own, without a network, where some packages cannot be imported."""

import subprocess
import sys
from collections.abc import Collection

PREPARATION = """
import importlib.metadata, importlib.util, socket, sys

HIDDEN = set(sys.argv.pop(1).split())
# spaCy imports the entry points of all distributions.
find = importlib.metadata.distributions
importlib.metadata.distributions = lambda **how: (
    found for found in find(**how) if found.name.lower().replace("-", "_") not in HIDDEN
)

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

def refuse(*args, **kwargs):
    raise OSError("the network is switched off for this check")

find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name.split(".")[0] in HIDDEN else find_spec(name, package)
sys.meta_path.insert(0, Blocker())
socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
"""


def run_hidden(hidden: Collection[str], code: str, *arguments: object) -> str:
    """Run code without some packages, and return what it prints."""
    command = [sys.executable, "-c", PREPARATION + code, " ".join(hidden), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
