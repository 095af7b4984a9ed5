"""The command line: options in, one call of the project, words or one JSON document out."""

from release.cli import budgeting, decisions, moving
from release.cli.commands import main

__all__ = ["budgeting", "decisions", "main", "moving"]
