"""Commands that cannot say what they did, or were given what is no text: in real processes."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from release.ledger.kinds import Notice
from release.project import open_project
from tests.command import dp_release
from tests.projects import after_weeks, mean_job, write_project

ONE, TWO = after_weeks(1), after_weeks(2)
SAID = (
    "dp-release: standard output cannot be written ({}); whatever this command wrote to the"
    " ledger is kept there\n"
)
NO_ROOM, CLOSED = SAID.format("No space left on device"), SAID.format("Bad file descriptor")
NOTICE = ("ledger", "notice", "ratings", "--text", "The form was changed.")
# Far more than a pipe holds: the reader is gone before the end.
MANY = 500
pytestmark = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a full device")


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A project whose account is open."""
    write_project(tmp_path)
    assert dp_release(tmp_path, "open").code == 0
    return tmp_path


@pytest.fixture(scope="module")
def old_shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a record that no pipe holds."""
    folder = write_project(tmp_path_factory.mktemp("old"))
    now = datetime.fromisoformat(ONE)
    with open_project(folder) as project:
        project.open_accounts(now)
        with project.ledger.writing("ratings") as writer:
            for _ in range(MANY):
                writer.note("notice", Notice(text="The form was changed."), now)
    return folder


def last(folder: Path) -> int:
    """The number of the account's last entry."""
    with open_project(folder) as project:
        (account,) = project.accounts()
        return account.last.seq


def shell(folder: Path, script: str, *arguments: str | bytes) -> tuple[int, str]:
    """The exit code of a script that runs the command as ``"$@"``, and standard error."""
    command = [sys.executable, "-m", "release", *arguments]
    done = subprocess.run(
        ["/bin/bash", "-c", script, "bash", *command],
        cwd=folder,
        env={**os.environ, "LC_ALL": "C.UTF-8", "PYTHONPATH": str(Path(__file__).parent.parent)},
        stderr=subprocess.PIPE,
        check=False,
    )
    return done.returncode, done.stderr.decode("utf-8")


# ---------------------------------------------------------------------------- standard output


@pytest.mark.parametrize(
    ("to", "said"), [(">/dev/full", NO_ROOM), (">&-", CLOSED), ("<&- >&- 2>&-", "")]
)
@pytest.mark.parametrize("form", [(), ("--json",)])
def test_what_cannot_be_said_is_done_all_the_same(
    shop: Path, to: str, said: str, form: tuple[str, ...]
) -> None:
    before = last(shop)
    assert shell(shop, f'"$@" {to}', *NOTICE, *form) == (1, said)
    assert last(shop) == before + 1


@pytest.mark.parametrize(
    "command", ["--help", "--version", "ledger list", "plan", "status --json"]
)
def test_every_command_says_in_one_line_that_there_is_no_room(shop: Path, command: str) -> None:
    assert shell(shop, '"$@" >/dev/full', *command.split()) == (1, NO_ROOM)


@pytest.mark.parametrize("to", [">/dev/full", ">&-"])
def test_an_export_that_cannot_be_written(old_shop: Path, to: str) -> None:
    code, said = shell(old_shop, f'"$@" {to}', "ledger", "export")
    assert (code, said) == (1, NO_ROOM if "full" in to else CLOSED)


@pytest.mark.parametrize("command", ["ledger export", "ledger list --json"])
def test_a_reader_who_goes_away_is_no_fault(old_shop: Path, command: str) -> None:
    read = 'set -o pipefail; "$@" | head -c 1 >/dev/null'
    assert shell(old_shop, read, *command.split()) == (141, "")


def test_a_run_whose_reader_has_gone_is_done_to_its_end(tmp_path: Path) -> None:
    write_project(tmp_path, jobs={"mean": mean_job(noise={"releases": 1})})
    read = 'set -o pipefail; "$@" 2>/dev/null | exec <&-'
    assert shell(tmp_path, read, "run", "--now", ONE) == (141, "")
    assert last(tmp_path) == 3
    assert (tmp_path / "site/index.html").exists()
    # What the run has to say with its own code says more.
    assert shell(tmp_path, read, "run", "--now", TWO) == (3, "")
    assert last(tmp_path) == 4


@pytest.mark.parametrize("to", ["2>/dev/full", "2>&-"])
def test_progress_that_cannot_be_shown_stops_no_run(tmp_path: Path, to: str) -> None:
    write_project(tmp_path)
    assert shell(tmp_path, f'"$@" {to} >out', "run", "--now", TWO) == (0, "")
    assert "2 published" in (tmp_path / "out").read_text("utf-8")


def test_a_fault_that_cannot_be_printed_as_a_document_is_said_in_words(shop: Path) -> None:
    code, said = shell(shop, '"$@" >/dev/full', "pause", "none", "--reason", "so", "--json")
    assert code == 1
    assert said.startswith("dp-release: there is no job none\n")
    assert said.endswith(NO_ROOM)


def test_a_broken_ledger_is_told_whoever_listens(shop: Path) -> None:
    assert dp_release(shop, *NOTICE).code == 0
    (shop / "state/ledger.db").unlink()
    for to in ('"$@" >/dev/full', 'set -o pipefail; "$@" | exec <&-'):
        for command in (["ledger", "verify"], ["status", "--json"], ["run", "--json"]):
            code, said = shell(shop, to, *command)
            assert code == 5, (to, command, said)
            assert "Traceback" not in said
            assert ("does not hold" in said) == (command[1:] == ["--json"]), said


# ---------------------------------------------------------------------------- what is no text


@pytest.mark.parametrize(
    "arguments",
    [
        [b"ledger", b"amend", b"ratings", b"3", b"--gaussian", b"1", b"--sensitivity", b"1",
         b"--reason", b"\xff"],
        [b"ledger", b"notice", b"ratings", b"--text", b"caf\xe9"],
        [b"ledger", b"record", b"ratings", b"--event", b"\xff.json", b"--reason", b"a"],
        [b"ledger", b"export", b"--out", b"\xff"],
        [b"ledger", b"import", b"\xff"],
        [b"budget", b"--project", b"\xff"],
        [b"init", b"\xff"],
        [b"pause", b"\xff", b"--reason", b"a"],
        [b"--\xff"],
        [b"resume", b"\xff", b"--reason", b"a", b"--json"],
    ],
    ids=lambda arguments: b" ".join(arguments[:2]).decode("ascii", "backslashreplace"),
)  # fmt: skip
def test_an_argument_that_is_no_text(old_shop: Path, arguments: list[bytes]) -> None:
    before, files = last(old_shop), sorted(old_shop.iterdir())
    code, said = shell(old_shop, '"$@" >&2', *arguments)
    assert code == 2
    assert "is not text in UTF-8" in said
    assert "Nothing was written." in said
    assert "Traceback" not in said
    assert said.count("\n") == (1 if b"--json" in arguments else 2)
    assert (last(old_shop), sorted(old_shop.iterdir())) == (before, files)
