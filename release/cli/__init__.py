"""The command line: options in, one call of the project, words or one JSON document out."""

from release.cli import budgeting
from release.cli.commands import main

__all__ = ["budgeting", "main"]
