"""A ledger of every format that ever was opens for ever: after ``dp-release ledger upgrade``."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, Pool, event

from release.accounting import Gaussian
from release.bounding import Totals
from release.errors import BusyError, LedgerError, StorageError, UsageError
from release.ledger import migrations, schema
from release.ledger.chain import sealed
from release.ledger.kinds import KINDS
from release.ledger.migrations.versions.format_2 import NEW
from release.ledger.places import database
from release.ledger.store import Ledger
from release.pipeline import plan, settle
from release.windows import Window
from tests.command import dp_release
from tests.ledger.examples import NOW, funded, opened, still
from tests.ledger.examples import sealed as hash_of
from tests.ledger.places import Place, SQLite, on_postgresql
from tests.ledger.shops import shop, tree
from tests.processes import PROCESSES
from tests.test_crashes import deaths, killer

GOLDEN = Path(__file__).parent / "golden"
TABLES = ("accounts", "entries", "releases")
ENTRIES_OF_1 = 90
Use = Callable[[Ledger, str], AbstractContextManager[object]]


def golden_ledger(folder: Path, number: int) -> SQLite:
    """A ledger as the software of that format left it."""
    place = SQLite(folder)
    place.path.parent.mkdir(parents=True)
    shutil.copy(GOLDEN / f"format-{number}.db", place.path)
    return place


@pytest.fixture
def old(tmp_path: Path) -> SQLite:
    return golden_ledger(tmp_path / "shop", 1)


def listed(number: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((GOLDEN / f"format-{number}.json").read_text("utf-8"))
    return found


def held(found: Ledger) -> list[dict[str, Any]]:
    """Every entry with all it says, and its result."""
    return [
        {
            **sealed(entry),
            "hash": entry.hash,
            # What a later version has a default for, was never said.
            "release": account.releases[entry.seq].model_dump(mode="json", exclude_unset=True)
            if entry.seq in account.releases
            else None,
        }
        for account in found.accounts()
        for entry in account.entries
    ]


def made(place: SQLite) -> dict[str, list[str]]:
    """Everything in the schema, in words and signs: how it is broken into lines says nothing."""
    return {
        row["name"]: re.findall(r"'[^']*'|\w+|[^\w\s]", row["sql"] or "")
        for row in place.sql("SELECT name, sql FROM sqlite_master")
    }


def stored(place: SQLite) -> list[Any]:
    """Every row of every table."""
    return [place.sql(f"SELECT * FROM {table} ORDER BY 1, 2") for table in TABLES]  # noqa: S608


def whole(place: SQLite) -> list[Any]:
    """All that the file says, whatever is in its log."""
    copy = place.aside()
    return [copy.sql("PRAGMA user_version"), made(copy), stored(copy)]


def upgraded(place: Place) -> tuple[str, int]:
    with closing(place.ledger()) as found:
        return found.upgrade()


# ------------------------------------------------------------------ what comes through, and how


@pytest.mark.parametrize("number", range(1, int(schema.FORMAT) + 1))
def test_a_golden_ledger_keeps_all_that_it_held(tmp_path: Path, number: int) -> None:
    place, entries = golden_ledger(tmp_path / "shop", number), listed(number)
    before = stored(place)
    if str(number) != schema.FORMAT:
        assert upgraded(place) == (str(number), len(entries))
    with closing(place.ledger()) as found:
        assert found.verify() == (len(entries), [])
        assert held(found) == entries
    assert all(row["hash"] == hash_of(row) for row in place.entries())
    assert upgraded(place) == (schema.FORMAT, len(entries))
    assert stored(place) == before


def test_the_newest_golden_ledger_holds_every_kind_of_entry(tmp_path: Path) -> None:
    with closing(golden_ledger(tmp_path / "shop", int(schema.FORMAT)).ledger()) as found:
        accounts = found.accounts()
    assert {entry.kind for one in accounts for entry in one.entries} == set(KINDS)
    assert [one.terms.account for one in accounts if one.overdrawn] == ["small"]


def test_an_upgraded_schema_equals_a_fresh_one(old: SQLite, tmp_path: Path) -> None:
    fresh = SQLite(tmp_path / "fresh")
    opened(fresh).close()
    upgraded(old)
    assert made(old) == made(fresh)
    for said in ("PRAGMA user_version", "PRAGMA journal_mode", "SELECT * FROM alembic_version"):
        assert old.sql(said) == fresh.sql(said)


def test_the_newest_revision_is_the_format(place: Place) -> None:
    opened(place).close()
    folder = Path(migrations.__file__).parent
    assert ScriptDirectory(str(folder)).get_current_head() == schema.FORMAT
    found = database(place.folder, place.address, wait=1)
    with closing(found), found.reading() as connection:
        context = MigrationContext.configure(connection, opts={"compare_server_default": True})
        assert context.get_current_revision() == schema.FORMAT
        assert compare_metadata(context, schema.metadata) == []


def test_removed_triggers_are_put_back_and_views_stay(old: SQLite, tmp_path: Path) -> None:
    fresh = SQLite(tmp_path / "fresh")
    opened(fresh).close()
    for trigger in ("entries_follow", "releases_no_delete"):
        old.sql(f"DROP TRIGGER {trigger}")
    old.sql("CREATE VIEW spends AS SELECT * FROM entries WHERE charge > 0")
    before = old.sql("SELECT * FROM spends")
    upgraded(old)
    assert old.sql("SELECT * FROM spends") == before
    old.sql("DROP VIEW spends")
    assert made(old) == made(fresh)


@pytest.mark.parametrize(("account", "job"), [("shop-2026", "average"), ("clinic", "waiting")])
def test_an_upgraded_ledger_goes_on(old: SQLite, account: str, job: str) -> None:
    upgraded(old)
    with closing(old.ledger()) as found:
        opening, asked = found.terms(account), found.last_job(account, job)
        assert opening is not None
        assert asked is not None
        planned = plan(asked, opening)
        last = max(found.settled(account, job), key=lambda window: window.first)
        following = Window(last.kind, last.after, last.zone)
        groups = asked.statistic.listed
        zero = Totals(groups, {name: [0] * len(groups) for name in planned.mechanism.sigma})
        done = settle(found, planned, following, lambda *_: zero, sampler=still, now=NOW)
        assert done.status == "published"
        with found.writing(account) as writer:
            window = Window(last.kind, following.after, last.zone)
            writer.refuse(asked, window, planned.charge, "share", NOW)
            writer.record(Gaussian(1, 1000), "a survey", NOW)
        assert found.verify() == (ENTRIES_OF_1 + 3, [])
        kinds = [entry["kind"] for entry in held(found) if entry["account"] == account]
        assert kinds[-3:] == ["release", "refusal", "record"]


# ------------------------------------------------------------------------ all of it or nothing


def upgrade_and_die(at: int, place: SQLite) -> None:
    """Dies before a statement that changes something, before the commit or right after it."""
    step = killer(at)

    def statement(_connection: object, _cursor: object, text: str, *_: object) -> None:
        if not text.lstrip().startswith("SELECT"):
            step()

    event.listen(Engine, "before_cursor_execute", statement)
    event.listen(Engine, "commit", step)
    event.listen(Pool, "checkin", step)
    upgraded(place)


def small(folder: Path) -> SQLite:
    """The ledger of format 1 with one of its accounts."""
    place = golden_ledger(folder, 1)
    triggers = place.sql("SELECT sql FROM sqlite_master WHERE type = 'trigger'")
    place.lift_rules()
    for table in reversed(TABLES):
        place.sql(f"DELETE FROM {table} WHERE account <> 'shop'")  # noqa: S608
    for trigger in triggers:
        place.sql(trigger["sql"])
    return place


def test_an_upgrade_is_killed_at_every_step(tmp_path: Path) -> None:
    old = small(tmp_path / "shop")
    before, found, file = whole(old), [], old.path.read_bytes()
    for at in deaths(upgrade_and_die, old):
        found.append(whole(old))
        if at % 8 == 0:
            upgraded(old)
            assert whole(old)[-1] == before[-1]
        old.clear()
        old.path.parent.mkdir(parents=True)
        old.path.write_bytes(file)
    after = found[-1]
    undone = found.index(after)
    assert undone > len(NEW)
    assert found == [before] * undone + [after] * (len(found) - undone)
    assert after[-1] == before[-1]


def forge(place: SQLite, statement: str) -> None:
    place.lift_rules()
    place.sql(statement)


FORGERIES = {
    "UPDATE entries SET charge = charge + 1 WHERE account = 'trials' AND seq = 16": "entry 16",
    "UPDATE entries SET body = 'gone' WHERE account = 'shop' AND seq = 2": "entry 2",
    "DELETE FROM entries WHERE account = 'wards' AND seq = 9": "entry (9|10)",
    "DELETE FROM releases WHERE account = 'clinic' AND seq = 6": "entry 6",
    "UPDATE releases SET content = replace(content, '1', '2') WHERE seq = 7": "entry 7",
    "DELETE FROM entries WHERE account = 'nothing'": "account 'nothing'",
    "DELETE FROM accounts WHERE account = 'nothing'": "FOREIGN KEY|account 'nothing'",
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_record_that_is_not_intact_is_not_upgraded(old: SQLite, forgery: str) -> None:
    forge(old, forgery)
    before = whole(old)
    with pytest.raises(LedgerError, match=FORGERIES[forgery]) as caught:
        upgraded(old)
    assert str(old.path) in caught.value.message
    assert whole(old) == before


@pytest.mark.parametrize("number", ["0", "01", "3", "99", "two", ""])
def test_any_other_format_is_refused(place: Place, number: str) -> None:
    opened(place).close()
    place.sql(f"UPDATE alembic_version SET version_num = '{number}'")  # noqa: S608
    before = place.entries()
    with pytest.raises(LedgerError) as caught:
        upgraded(place)
    newer = number in {"3", "99"}
    assert (f"format {number}, this software writes 2" in caught.value.message) is newer
    assert (caught.value.hint == "Use the version of the software that made it.") is newer
    assert (place.entries(), place.sql("SELECT * FROM alembic_version")) == (
        before,
        [{"version_num": number}],
    )


def test_where_no_ledger_is_none_is_made(place: Place) -> None:
    with pytest.raises(UsageError, match="no ledger yet"):
        upgraded(place)
    assert place.columns() == {}


def test_an_upgrade_waits_for_a_writer(old: SQLite) -> None:
    with closing(sqlite3.connect(old.path, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        with closing(old.ledger(wait=0.1)) as found, pytest.raises(BusyError):
            found.upgrade()
    assert upgraded(old) == ("1", ENTRIES_OF_1)


FIRST = "UPDATE alembic_version SET version_num = '1'"


@on_postgresql
@pytest.mark.parametrize("use", [Ledger.looking, Ledger.writing])
def test_an_upgrade_and_whoever_found_another_format_wait_for_each_other(
    place: Place, use: Use
) -> None:
    opened(place).close()
    upgrader = database(place.folder, place.address, wait=0.1)
    with closing(place.ledger(wait=0.1)) as one, closing(upgrader):
        with use(one, "shop"):
            place.sql(FIRST)
            with pytest.raises(BusyError), upgrader.upgrading():
                pass
        with upgrader.upgrading(), pytest.raises(BusyError), use(one, "shop"):
            pass


@on_postgresql
def test_a_revision_that_fails_is_undone(place: Place) -> None:
    """As every revision from the first format must, which was SQLite's alone."""
    opened(place, opening=funded("gdp")).close()
    place.sql(FIRST)
    before = place.columns(), place.entries()
    with pytest.raises(StorageError):
        upgraded(place)
    assert (place.columns(), place.entries()) == before


def test_two_upgrades_at_once(old: SQLite) -> None:
    both = [PROCESSES.Process(target=upgraded, args=(old,)) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join()
    assert [process.exitcode for process in both] == [0, 0]
    assert upgraded(old) == (schema.FORMAT, ENTRIES_OF_1)


# ---------------------------------------------------------------------------- the command line


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project whose ledger is of the first format."""
    folder = shop(tmp_path / "shop")
    (folder / "state").mkdir()
    shutil.copy(GOLDEN / "format-1.db", folder / "state/ledger.db")
    return folder


def test_the_command_says_what_it_did(project: Path) -> None:
    done = dp_release(project, "ledger", "upgrade")
    assert (done.code, done.err) == (0, "")
    assert "from format 1 to format 2; all 90 entries verify" in done.out
    again = dp_release(project, "ledger", "upgrade", "--json")
    ledger = str(project.resolve() / "state/ledger.db")
    assert again.document["from"] == again.document["to"] == schema.FORMAT
    assert (again.code, again.document["entries"]) == (0, ENTRIES_OF_1)
    assert Path(project, again.document["ledger"]).resolve() == Path(ledger)
    assert "already" in dp_release(project, "ledger", "upgrade").out


def test_the_command_gives_one_document(project: Path) -> None:
    done = dp_release(project, "ledger", "upgrade", "--json")
    assert done.document == {**done.document, "from": "1", "to": "2", "entries": ENTRIES_OF_1}


def test_the_command_refuses_a_forged_record(project: Path) -> None:
    place = SQLite(project)
    forge(place, next(iter(FORGERIES)))
    before = whole(place)
    done = dp_release(project, "ledger", "upgrade", "--json")
    assert done.code == LedgerError.exit_code
    assert "entry 16 of account 'trials'" in done.document["error"]["message"]
    assert "Nothing was changed" in done.document["error"]["hint"]
    assert whole(place) == before


def test_the_command_finds_no_ledger(tmp_path: Path) -> None:
    done = dp_release(shop(tmp_path / "shop"), "ledger", "upgrade")
    assert done.code == UsageError.exit_code
    assert "there is no ledger yet" in done.err
    assert not (tmp_path / "shop/state").exists()


@pytest.mark.parametrize(
    "command",
    [
        "run --now 2026-02-01T00:00Z --yes",
        "open",
        "check",
        "plan",
        "status",
        "budget",
        "ledger list",
        "ledger show shop 1",
        "ledger verify",
        "ledger record shop --reason survey --gaussian 40 --sensitivity 1",
        "site build",
    ],
)
def test_any_other_command_says_how_to_go_on(project: Path, command: str) -> None:
    before = whole(SQLite(project)), files(project)
    done = dp_release(project, *command.split())
    assert done.code == LedgerError.exit_code
    assert "has format 1, this software writes 2" in done.err
    assert "`dp-release ledger upgrade`" in done.err
    assert (whole(SQLite(project)), files(project)) == before


def files(folder: Path) -> dict[str, bytes]:
    """Every file but those that SQLite keeps beside its own while it reads."""
    beside = ("-wal", "-shm")
    return {name: data for name, data in tree(folder).items() if not name.endswith(beside)}


def test_no_other_command_pays_for_it(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "sys.argv = ['dp-release', 'run', '--now', '2026-01-13T00:00Z', '--yes']\n"
        "from release.cli import main\n"
        "try:\n"
        "    main()\n"
        "finally:\n"
        "    print(*sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        check=False,
        capture_output=True,
        text=True,
        cwd=shop(tmp_path / "shop", ("board",)),
    )
    assert done.returncode == 0, done.stderr
    assert {"alembic", "mako", "psycopg"} & set(done.stderr.split()) == set()
