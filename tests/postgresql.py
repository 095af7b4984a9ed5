"""A real PostgreSQL server for tests: on a socket in a private folder, and gone at the end.

>>> with Server(binaries()) as server:
...     ledger = Ledger(folder, server.address("dp_release"), wait=10)
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Literal, Self

USER, DATABASE = "tests", "postgres"
SETTINGS = """
listen_addresses = ''
unix_socket_directories = '{folder}'
# Only a crash of the machine loses what the kernel was given and the disk was not: a server or
# a client that is killed loses nothing by this. And the cluster does not outlive the tests.
fsync = off
full_page_writes = off
"""


def binaries() -> Path | None:
    """Where PostgreSQL's programs are: beside the one on the path, or the newest of Debian's."""
    on_path = shutil.which("initdb")
    debian = Path("/usr/lib/postgresql").glob("*/bin")
    newest_first = sorted(debian, key=lambda bin_: float(bin_.parent.name), reverse=True)
    folders = [Path(on_path).resolve().parent] if on_path else []
    whole = (f for f in [*folders, *newest_first] if (f / "initdb").exists())
    return next((folder for folder in whole if (folder / "pg_ctl").exists()), None)


def unprivileged() -> dict[str, Any]:
    """As whom ``subprocess`` runs the programs, which refuse to be root's."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            found = pwd.getpwnam(name)
            return {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}
    raise RuntimeError("PostgreSQL does not run as root, and there is nobody else")


@dataclass(frozen=True)
class Server:
    """A server with an empty cluster of its own, from entering the context to leaving it."""

    programs: Path
    folder: Path = field(default_factory=lambda: Path(mkdtemp(prefix="postgresql-")))

    def __enter__(self) -> Self:
        try:
            self._make()
            self.start()
        except BaseException:
            shutil.rmtree(self.folder)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if (self._data / "postmaster.pid").exists():
                self.stop("immediate")
        finally:
            shutil.rmtree(self.folder)

    def address(self, schema: str) -> str:
        """The address of a ledger that lies in this schema."""
        return f"postgresql+psycopg://{USER}@/{DATABASE}?host={self.folder}&schema={schema}"

    def start(self) -> None:
        """Starts it, and comes back when it answers."""
        # Without a log of its own it would hold our streams open.
        self._run("pg_ctl", "start", "--wait", "--log", str(self.folder / "log"))

    def stop(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """Stops it in order, or as if it had crashed; clients are cut off either way."""
        self._run("pg_ctl", "stop", "--wait", "--mode", mode)

    def restart(self) -> None:
        """Crashes it and starts it again, which recovers what was committed."""
        self.stop("immediate")
        self.start()

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _make(self) -> None:
        owner = unprivileged()
        if owner:
            os.chown(self.folder, owner["user"], owner["group"])
        cluster = ("--username", USER, "--auth", "trust", "--encoding", "UTF8", "--locale", "C")
        self._run("initdb", *cluster, "--no-sync")
        with (self._data / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.write(SETTINGS.format(folder=self.folder))

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self.programs / program), "--pgdata", str(self._data), *arguments]
        done = subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, check=False, **unprivileged()
        )
        if done.returncode != 0:
            log = self.folder / "log"
            told = log.read_text("utf-8") if log.exists() else ""
            raise RuntimeError(f"{program} failed: {done.stdout}{done.stderr}{told}")
