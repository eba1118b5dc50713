"""Give people tokens of a service, list who has one, and take tokens away."""

from pathlib import Path
from typing import Annotated

import typer
from members import Members, Role

from spacy_sapbert.command_line import run_app, show_controls

INSTALL = "In projects/service: pip install -r requirements.txt."
Folder = Annotated[Path, typer.Argument(help="The folder of the service, as in `--folder`")]
Name = Annotated[str, typer.Argument(help="Letters, digits, spaces, dots, hyphens and @")]
app = typer.Typer(help=__doc__, no_args_is_help=True, pretty_exceptions_enable=False)


@app.command()
def add(folder: Folder, name: Name, role: Role = "annotator") -> None:
    """Give somebody a token, and print it. It is shown only once."""
    print(Members(folder).add(name, role))


@app.command("list")
def show(folder: Folder) -> None:
    """List who has a token."""
    members = Members(folder)
    for member in members.list_members():
        print(f"{member.name}\t{member.role}")
    if members.bad_lines:
        print(
            f"Lines of {show_controls(str(members.path))} that can't be read: {members.bad_lines}. Mend or delete them."
        )
    if not members.need_tokens:
        print("There are no tokens, so whoever reaches the service may use it.")
    elif not members.list_members():
        print(f"Nobody has a token, so the service lets nobody in. To do without tokens, delete {members.path}.")


@app.command()
def remove(folder: Folder, name: Name) -> None:
    """Take somebody's token away, at once. The corrections stay."""
    Members(folder).remove(name)
    show(folder)


if __name__ == "__main__":
    run_app(app, INSTALL)
