"""Run a command: `python -m training --help`."""

from spacy_sapbert.command_line import run_app

from .cli import app

INSTALL = "Install what training needs, in the folder of the checkout: pip install -c constraints.txt -e '.[training]'."


def main() -> None:
    """Run a command."""
    run_app(app, INSTALL)


if __name__ == "__main__":
    main()
