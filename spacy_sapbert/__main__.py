"""Link and check tables, keep mappings, and exchange documents with other formats: `python -m spacy_sapbert --help`."""

import sys

from .command_line import run_app
from .commands.app import app


def main() -> None:
    """Run a command."""
    # Of the checker, 1 says that a pair is wrong.
    status = 2 if sys.argv[1:2] == ["check"] else 1
    run_app(app, "Install the plugin with all that it needs: pip install spacy-sapbert.", status)


if __name__ == "__main__":
    main()
