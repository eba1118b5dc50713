"""What `learn` needs, said before anything is converted. This runs without any package."""

import sys
from importlib.util import find_spec
from pathlib import Path


def check(annotations: str, linker: str) -> None:
    """Refuse to go on without the package training, annotations or a linker."""
    if lack := find_lack(annotations, Path(linker)):
        sys.exit(f"Error: Learning needs {lack}")


def find_lack(annotations: str, linker: Path) -> str:
    """Find what is missing, and how to give it; empty if nothing is."""
    if find_spec("training") is None:
        return "the package training. In the folder of the checkout: pip install -c constraints.txt -e '.[training]'"
    if not annotations:
        return 'annotated documents. Add --vars.annotations "$PWD/annotated.jsonl"; README.md lists the formats.'
    if not (linker / "sapbert_linker" / "terminology").is_dir():
        add = 'Add --vars.linker "$PWD/my_pipeline", a folder that `nlp.to_disk` has written'
        return f"a saved pipeline with `sapbert_linker`, and {linker.absolute()} is none. {add}."
    return ""


if __name__ == "__main__":
    check(*sys.argv[1:])
