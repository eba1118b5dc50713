"""Run the commands of `python -m training` in this process."""

from typer.testing import CliRunner

from training.cli import app


def run_command(*arguments: object) -> str:
    """Run a command, and return what it prints. Errors are raised as they are."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output
