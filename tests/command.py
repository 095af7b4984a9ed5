"""The command line in processes of its own, and what they printed.

Each call is a whole process with its own working directory, streams, limits and exit code. They
are forked from a server that has imported the slow libraries already, which makes them quick;
``tests/test_cli.py`` starts some from nothing too.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.processes import PROCESSES

PATIENCE = 120


@dataclass(frozen=True)
class Done:
    """A finished command."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document that is all of standard output."""
        return json.loads(self.out)


def dp_release(folder: Path, *arguments: str, largest_file: int | None = None) -> Done:
    """Runs the command in ``folder``; no file may grow past ``largest_file`` bytes."""
    with tempfile.TemporaryDirectory() as streams:
        out, err = Path(streams, "out"), Path(streams, "err")
        process = PROCESSES.Process(
            target=_command, args=(folder, arguments, out, err, largest_file)
        )
        process.start()
        process.join(PATIENCE)
        if process.exitcode is None:
            process.kill()
            raise TimeoutError(f"dp-release {' '.join(arguments)}")
        return Done(process.exitcode, out.read_text("utf-8"), err.read_text("utf-8"))


def _command(
    folder: Path, arguments: tuple[str, ...], out: Path, err: Path, largest_file: int | None
) -> None:
    for stream, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), stream)
    os.chdir(folder)
    if largest_file is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))
    sys.argv = ["dp-release", *arguments]

    from release.cli import main

    main()
