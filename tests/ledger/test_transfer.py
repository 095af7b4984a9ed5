"""A record moves whole, by the same hashes, or not at all; what is wrong with a file is told."""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, event

from release.accounting import PoissonGaussian, PureDP
from release.errors import LedgerError, ReleaseError, StorageError, UsageError
from release.ledger import transfer
from release.ledger.chain import GENESIS, canonical
from release.ledger.kinds import Decision, History, Notice
from release.ledger.store import Ledger
from release.ledger.transfer import BrokenExportError, LedgerCopy, Summary
from release.pipeline import plan
from tests.accounting.examples import events
from tests.ledger.examples import ABOUT, NOW, funded, job, opened, release, week
from tests.ledger.places import Place, PostgreSQL, SQLite, on_sqlite
from tests.ledger.test_upgrade import ENTRIES_OF_1, golden_ledger
from tests.postgresql import Server

Steps = Sequence[tuple[str, Any]]
TERMS = funded("rdp", "50", "0.5")
OTHER = TERMS.model_copy(update={"account": "older"})
PLAN = plan(job(), TERMS)
DAYS = st.dates(max_value=NOW.date())
STEPS = st.lists(
    st.tuples(st.just("release"), st.integers(0, 4))
    | st.tuples(st.just("record"), events)
    | st.tuples(st.just("history"), st.tuples(DAYS, st.text(min_size=1), events))
    | st.tuples(st.just("amend"), st.tuples(st.integers(3, 6), events))
    | st.tuples(st.just("notice"), st.text(min_size=1))
    | st.tuples(st.just("about"), st.text())
    | st.tuples(st.sampled_from(["pause", "resume", "retire"]), st.text(min_size=1)),
    max_size=6,
)
ONE_OF_EACH: Steps = [
    ("release", 0),
    ("record", PoissonGaussian(0.01, 2.0, 10)),
    ("history", (NOW.date(), "the survey of May — “Été”", PureDP(0.5))),
    ("amend", (4, PoissonGaussian(0.01, 2.0, 20))),
    ("notice", "a\nnotice \u2028 <b>"),
    ("about", "Store"),
    ("pause", "a look"),
]


def take(found: Ledger, step: str, value: Any) -> None:
    """One step of somebody who writes to the ledger."""
    if step == "release":
        release(found, week(value), PLAN)
        return
    with found.writing("shop") as writer:
        match step:
            case "record":
                writer.record(value, "elsewhere", NOW)
            case "history":
                day, said, spent = value
                writer.remember([(History(date=day, description=said), spent)], NOW)
            case "amend":
                seq, spent = value
                writer.amend(seq, spent, "the noise was less", NOW)
            case "notice":
                writer.note("notice", Notice(text=value), NOW, job="board")
            case "about":
                writer.note("project", ABOUT.model_copy(update={"title": value}), NOW)
            case "pause" | "resume" | "retire":
                writer.note(step, Decision(reason=value), NOW, job="board")


def filled(place: Place, steps: Steps = ONE_OF_EACH) -> Ledger:
    """Two accounts, and on one of them whatever the ledger lets in."""
    found = opened(place, opening=TERMS)
    found.open_account(OTHER, ABOUT, NOW)
    for step, value in steps:
        with suppress(ReleaseError):
            take(found, step, value)
    return found


def exported(found: Ledger) -> tuple[bytes, Summary]:
    to = io.BytesIO()
    summary = found.export(to)
    return to.getvalue(), summary


def read(content: bytes) -> LedgerCopy:
    return transfer.read(io.BytesIO(content), "copy.jsonl")


def moved(content: bytes, place: Place) -> bytes:
    """What a new ledger that took the file in exports."""
    with closing(place.ledger()) as found:
        found.restore(read(content))
        return exported(found)[0]


# ---------------------------------------------------------------------------- it goes through


def test_an_export_says_what_the_ledger_says(place: Place) -> None:
    with closing(filled(place)) as found:
        content, summary = exported(found)
        (older, shop) = found.accounts()
    # Lines end with "\n" alone: a notice may hold another separator.
    first, *lines, last = content.decode().removesuffix("\n").split("\n")
    assert json.loads(first) == {"what": "dp-release ledger", "format": 1, "version": "0.1.0"}
    seal = hashlib.sha256("".join(f"{line}\n" for line in (first, *lines)).encode()).hexdigest()
    assert json.loads(last) == {"entries": len(lines), "sha256": seal}
    assert summary == Summary(2, len(lines), seal)
    assert [json.loads(line)["hash"] for line in lines] == [
        entry.hash for entry in (*older.entries, *shop.entries)
    ]
    kinds = [json.loads(line)["kind"] for line in lines]
    assert kinds[2:] == [
        "open",
        "project",
        *(step.replace("about", "project") for step, _ in ONE_OF_EACH),
    ]
    results = [json.loads(line)["release"] for line in lines]
    assert [result for result in results if result] == [shop.releases[3].model_dump(mode="json")]
    for line in lines:
        assert canonical(json.loads(line)) == line
    for row in place.sql("SELECT sampling_key FROM accounts"):
        assert row["sampling_key"] not in content.decode()


@settings(max_examples=10)
@given(steps=STEPS)
def test_any_record_moves_by_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory, steps: Steps
) -> None:
    places = [SQLite(tmp_path_factory.mktemp("ledger")) for _ in range(2)]
    with closing(filled(places[0], steps)) as found:
        content = exported(found)[0]
    assert moved(content, places[1]) == content
    tables = ("entries", "releases")
    for table in tables:
        said = [place.sql(f"SELECT * FROM {table} ORDER BY account, seq") for place in places]  # noqa: S608
        assert said[0] == said[1]
    with closing(places[1].ledger()) as found:
        assert found.verify()[1] == []


def test_from_database_to_database_and_back(tmp_path: Path, postgresql: Server) -> None:
    start = SQLite(tmp_path / "a")
    with closing(filled(start)) as found:
        content = exported(found)[0]
    there, back = PostgreSQL(tmp_path / "b", postgresql), SQLite(tmp_path / "c")
    assert moved(content, there) == content
    assert moved(content, back) == content
    assert start.entries() == there.entries() == back.entries()
    keys = [
        row["sampling_key"]
        for place in (start, there, back)
        for row in place.sql("SELECT sampling_key FROM accounts")
    ]
    assert len(set(keys)) == 6


def test_what_was_moved_goes_on_as_if_nothing_had_happened(place: Place, tmp_path: Path) -> None:
    with closing(filled(SQLite(tmp_path / "before"))) as found:
        content = exported(found)[0]
    with closing(place.ledger()) as found:
        found.restore(read(content))
        with found.looking("shop") as view:
            last, spent = view.head.last.hash, view.job_spent("board")
        assert spent == PLAN.charge.units
        assert release(found, week(0), PLAN).status == "already"
        take(found, "record", PureDP(0.1))
        (_, shop) = found.accounts()
        assert shop.last.previous == last
        assert found.verify()[1] == []


def test_a_ledger_that_holds_a_record_takes_in_none(place: Place) -> None:
    with closing(filled(place)) as found:
        copy = read(exported(found)[0])
        before = place.entries()
        with pytest.raises(UsageError, match="holds a record already"):
            found.restore(copy)
    assert place.entries() == before


def test_an_empty_ledger_takes_a_record_in_and_exports_none(place: Place, tmp_path: Path) -> None:
    with closing(filled(SQLite(tmp_path / "before"))) as found:
        content = exported(found)[0]
    with closing(place.ledger()) as found:
        with pytest.raises(UsageError, match="no account yet"):
            exported(found)
        place_is_made(found)
        with pytest.raises(UsageError, match="no account yet"):
            exported(found)
        found.restore(read(content))
        assert exported(found)[0] == content


def test_of_many_imports_at_once_one_is_made(place: Place, content: bytes) -> None:
    copy, outcomes = read(content), []

    def attempt() -> None:
        with closing(place.ledger()) as found:
            try:
                found.restore(copy)
                outcomes.append("done")
            except UsageError:
                outcomes.append("refused")

    threads = [Thread(target=attempt) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["done", "refused", "refused", "refused"]
    with closing(place.ledger()) as found:
        assert exported(found)[0] == content


def place_is_made(found: Ledger) -> None:
    """A transaction that is undone leaves a ledger without accounts."""
    with pytest.raises(LedgerError, match="no account"), found.writing("shop"):
        pass


# ---------------------------------------------------------------------------- all or nothing


@contextmanager
def failing(at: int) -> Iterator[list[str]]:
    """The ``at``-th statement that inserts anything fails; the list fills with all of them."""
    seen: list[str] = []

    def statement(_connection: object, _cursor: object, text: str, *_: object) -> None:
        if text.startswith("INSERT"):
            seen.append(text)
            if len(seen) == at:
                raise KeyboardInterrupt

    event.listen(Engine, "before_cursor_execute", statement)
    try:
        yield seen
    finally:
        event.remove(Engine, "before_cursor_execute", statement)


def test_an_import_that_is_stopped_anywhere_leaves_nothing(place: Place, tmp_path: Path) -> None:
    with closing(filled(SQLite(tmp_path / "before"))) as found:
        content = exported(found)[0]
    copy = read(content)
    with closing(place.ledger()) as found:
        place_is_made(found)
        for at in count(1):
            with failing(at) as seen:
                with suppress(KeyboardInterrupt):
                    found.restore(copy)
                if len(seen) < at:
                    break
            for table in ("accounts", "entries", "releases"):
                assert place.sql(f"SELECT * FROM {table}") == []  # noqa: S608
        # Every entry, the result, and each of two accounts was once the one that failed.
        assert at == copy.summary.entries + 1 + 2 + 1
        assert exported(found)[0] == content


def test_a_record_that_is_not_intact_is_not_exported(place: Place) -> None:
    filled(place).close()
    place.lift_rules()
    place.sql("UPDATE entries SET charge = charge - 1 WHERE account = 'shop' AND seq IN (4, 5)")
    to = io.BytesIO()
    with closing(place.ledger()) as found, pytest.raises(LedgerError) as caught:
        found.export(to)
    assert "entry 4 of account 'shop'" in caught.value.message
    assert caught.value.exit_code == 5
    assert b'"shop"' not in to.getvalue()


@on_sqlite
def test_a_result_in_another_form_is_not_exported(place: Place) -> None:
    filled(place).close()
    place.lift_rules()
    (row,) = place.sql("SELECT seq, content FROM releases")
    content = row["content"] + " "
    place.sql("UPDATE releases SET content = :content", {"content": content})
    lines = [json.loads(entry["body"]) for entry in place.entries()]
    assert {"release_sha256": hashlib.sha256(row["content"].encode()).hexdigest()} in lines
    with closing(place.ledger()) as found, pytest.raises(LedgerError, match="result was edited"):
        exported(found)


# ---------------------------------------------------------------------------- files that are none


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    with closing(filled(SQLite(tmp_path_factory.mktemp("whole")))) as found:
        return exported(found)[0]


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """An account with no entry but its first two."""
    with closing(opened(SQLite(tmp_path_factory.mktemp("short")), opening=funded("gdp"))) as found:
        return exported(found)[0]


def faults(content: bytes) -> list[tuple[int, str]]:
    with pytest.raises(BrokenExportError) as caught:
        read(content)
    assert caught.value.exit_code == 5
    found = list(caught.value.faults)
    assert 0 < len(found) <= transfer.MOST_FAULTS
    assert caught.value.document()["faults"] == [{"line": n, "what": what} for n, what in found]
    return found


def lines_of(content: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in content.splitlines()[1:-1]]


def resealed(content: bytes, lines: Sequence[Any], **last: Any) -> bytes:
    """A file with these lines whose seal is right, so that only its lines can be wrong."""
    head = content.splitlines(keepends=True)[0]
    body = head + b"".join(
        line if isinstance(line, bytes) else f"{canonical(line)}\n".encode() for line in lines
    )
    seal = {"entries": len(lines), "sha256": hashlib.sha256(body).hexdigest(), **last}
    return body + f"{canonical(seal)}\n".encode()


def rehashed(content: bytes, lines: Sequence[dict[str, Any]]) -> bytes:
    """A forger's file: the chain of hashes and the seal are made anew."""
    previous: dict[Any, str] = {}
    made = []
    for line in lines:
        outside = {name: line[name] for name in ("hash", "release") if name in line}
        inside = {name: value for name, value in line.items() if name not in outside}
        account = str(line.get("account"))
        if "previous" in inside:
            inside["previous"] = previous.get(account, GENESIS)
        previous[account] = hashlib.sha256(canonical(inside).encode()).hexdigest()
        if "hash" in outside:
            outside["hash"] = previous[account]
        made.append(inside | outside)
    return resealed(content, made)


def test_the_forger_of_these_tests_forges_well(content: bytes) -> None:
    lines = lines_of(content)
    assert resealed(content, lines) == rehashed(content, lines) == content
    read(content)


def spoilt(byte: int) -> Iterator[bytes]:
    """What may become of a byte."""
    flipped = (bytes([byte ^ bit]) for bit in (1, 0x20, 0x80))
    yield from (*flipped, b"", bytes([byte, byte]), b"\n", b"\0", b" ")


def test_every_byte_counts(short: bytes) -> None:
    for place, byte in enumerate(short):
        for made in spoilt(byte):
            content = short[:place] + made + short[place + 1 :]
            if content != short:
                faults(content)


@given(data=st.data())
@settings(max_examples=200)
def test_every_edit_counts(content: bytes, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(content)))
    end = data.draw(st.integers(start, min(len(content), start + 300)))
    edited = content[:start] + data.draw(st.binary(max_size=20)) + content[end:]
    if edited != content:
        faults(edited)


def test_a_file_that_was_cut_is_known_for_one(short: bytes) -> None:
    for end in range(len(short)):
        faults(short[:end])


def test_a_file_that_was_cut_between_lines_is_known_for_one(content: bytes) -> None:
    whole = content.splitlines(keepends=True)
    for length in range(len(whole)):
        faults(b"".join(whole[:length]))
    (_, what), *_ = faults(b"".join(whole[:-1]))
    assert "cut" in what


@pytest.mark.parametrize("garbage", [b"\n", b" ", b"{}\n", b"\0", b"\xff" * 9, b"{" * 5])
def test_nothing_may_follow_the_end(content: bytes, garbage: bytes) -> None:
    faults(content + garbage)


@pytest.mark.parametrize(
    "other",
    [
        b"",
        b"\n",
        b"{}\n",
        b"[" * 100_000,
        os.urandom(100_000),
        b"SQLite format 3\0" + bytes(10_000),
        b"\x1f\x8b" + bytes(range(256)) * 50,
        b'{"format":2,"version":"9.0","what":"dp-release ledger"}\n',
        b'{"format":1,"version":"0.1.0","what":"dp-release site"}\n',
    ],
    ids=len,
)
def test_another_file_is_no_export(other: bytes) -> None:
    ((line, what),) = faults(other)
    assert line == 1
    assert "first line" in what


def test_an_export_of_nothing_is_none(content: bytes) -> None:
    assert faults(resealed(content, []))[0][0] == 2


def test_the_last_line_counts_and_seals(content: bytes) -> None:
    lines = lines_of(content)
    assert "counts 12" in faults(resealed(content, lines, entries=12))[0][1]
    assert "SHA-256" in faults(resealed(content, lines, sha256="0" * 64))[0][1]
    for entries in (-1, 2**70, 11.0, "11", None, True):
        assert "last line" in faults(resealed(content, lines, entries=entries))[0][1]


def test_all_faults_are_told_with_their_lines(content: bytes) -> None:
    lines: list[Any] = lines_of(content)
    lines[1] = {**lines[1], "charge": "0"}
    lines[4] = {**lines[4], "seq": 4.0}
    lines[6] = b"not JSON\n"
    found = faults(resealed(content, lines))
    assert [line for line, _ in found] == [3, 6, 8]
    assert [what.split(":")[0] for _, what in found] == ["charge", "seq", "Invalid JSON"]


def test_so_many_faults_are_told_and_no_more(content: bytes) -> None:
    assert len(faults(resealed(content, [b"{}\n"] * 500))) == transfer.MOST_FAULTS
    once = lines_of(content)[:2]
    many = [{**line, "account": f"{n:05}{line['account']}"} for n in range(15) for line in once]
    assert len(faults(resealed(content, many))) == transfer.MOST_FAULTS


NAN, HUGE = float("nan"), 10**400
NESTED = ("[" * 5000 + "]" * 5000).encode()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"charge":0', b'"charge":NaN'),
        (b'"charge":0', b'"charge":-0'),
        (b'"charge":0', b'"charge":0.0'),
        (b'"charge":0', b'"charge":-1'),
        (b'"charge":0', b'"charge":true'),
        (b'"charge":0', b'"charge":9223372036854775808'),
        (b'"charge":0', b'"charge":1' + b"0" * 5000),
        (b'"charge":0', b'"charge":1e999'),
        (b'"charge":0', b'"charge":' + NESTED),
        (b'"charge":0', b'"charge":0,"charge":0'),
        (b'"event":null', b'"event":' + b'{"a":' * 5000 + b"1" + b"}" * 5000),
        (b'"event":null', b'"event":{"a":NaN}'),
        (b'"event":null', b'"event":{"a":1e999}'),
        (b'"job":null', b'"job":"\\ud800"'),
        (b'"job":null', b'"job":"\xed\xa0\x80"'),
        (b'"job":null', b'"jop":null'),
        (b'"job":null', b'"job":null,"more":1'),
        (b'"window":null', b'"window":{}'),
        (b'"release":null', b'"release":{"format":1}'),
        (b'"title":"Shop"', b'"title":"\\u0053hop"'),
        (b'"title":"Shop"', b'"title":null'),
    ],
)
def test_a_line_holds_what_it_must_and_only_so(content: bytes, old: bytes, new: bytes) -> None:
    whole = content.splitlines(keepends=True)[1:-1]
    assert old in whole[1]
    whole[1] = whole[1].replace(old, new)
    found = faults(resealed(content, whole))
    assert [line for line, _ in found] == [3]


WINDOWS: dict[str, list[Any]] = {
    "kind": ["fortnight", None],
    "first": ["2026-01-06", "20260105", "2026-W02-1", "0001-01-01", "9999-12-31", 5],
    "after": ["2026-01-13", None],
    "zone": ["Europe/Nowhere", "../../etc/passwd", "/etc/passwd", "", "Europe", "a\0b"],
    "start": ["2026-01-05T00:00:00Z", "2026-01-05", "0001-01-01T00:00:00.000000+14:00", 0],
    "end": ["2026-01-05T00:00:00.000000Z", "9999-12-31T23:59:59.999999-23:00"],
}


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, vs in WINDOWS.items() for v in vs])
def test_a_window_is_one(content: bytes, name: str, value: Any) -> None:
    lines = lines_of(content)
    lines[4]["window"][name] = value
    assert faults(rehashed(content, lines))[0][0] == 6


REORDERED: dict[str, Callable[[list[Any]], list[Any]]] = {
    "swapped": lambda of: [*of[:5], of[6], of[5], *of[7:]],
    "missing": lambda of: [*of[:5], *of[6:]],
    "twice": lambda of: [*of[:6], *of[5:]],
    "backwards": lambda of: [*of[:2], *reversed(of[2:])],
    "no beginning": lambda of: [*of[:2], *of[3:]],
    "mixed": lambda of: [of[0], of[2], of[1], *of[3:]],
    "by another order": lambda of: [*of[2:], *of[:2]],
    "one account twice": lambda of: [*of, *of[:2]],
    "begun anew": lambda of: [*of, *of[2:]],
}


@pytest.mark.parametrize("how", REORDERED)
def test_entries_stand_in_their_order_once(content: bytes, how: str) -> None:
    lines = REORDERED[how](lines_of(content))
    faults(resealed(content, lines))
    faults(rehashed(content, lines))


def test_a_wrong_hash_is_named_with_its_line(content: bytes) -> None:
    lines = lines_of(content)
    lines[5]["hash"] = "0" * 64
    ((line, what),) = faults(resealed(content, lines))
    assert line == 7
    assert "entry 4 of account 'shop': was edited" in what


FORGED: dict[str, tuple[int, Callable[[dict[str, Any]], Any]]] = {
    "a charge that is lower": (5, lambda of: of.update(charge=of["charge"] - 1)),
    "a spend that is lower": (5, lambda of: of.update(spent=of["spent"] - 1)),
    "an event that cost less": (5, lambda of: of["event"].update(count=9)),
    "sums that are lower": (5, lambda of: of["sums"]["curve"].__setitem__(0, 0)),
    "a shorter curve": (5, lambda of: of["sums"]["curve"].pop()),
    "a larger cap": (2, lambda of: of["body"].update(cap=of["body"]["cap"] + 1)),
    "a larger budget": (2, lambda of: of["body"].update(epsilon="51")),
    "a budget beyond all sense": (2, lambda of: of["body"].update(epsilon="1E+30000000")),
    "a budget that is no number": (2, lambda of: of["body"].update(delta="")),
    "an order beyond all sense": (2, lambda of: of["body"].update(order="1e30000000")),
    "a share of noise that is no number": (4, lambda of: share(of, "")),
    "a share of noise beyond all sense": (4, lambda of: share(of, "1E-30000000")),
    "no result": (4, lambda of: of.update(release=None)),
    "another result": (4, lambda of: of["release"]["noisy"]["count"].__setitem__(0, 7)),
    "a result without noise": (4, lambda of: of["release"]["mechanism"].update(sensitivity=0)),
    "a result for nothing": (5, lambda of: of.update(release={})),
    "a correction of nothing": (7, lambda of: of["body"].update(amends=1)),
    "a correction by a fraction": (7, lambda of: of["body"].update(amends=4.0)),
    "a correction by a name": (7, lambda of: of["body"].update(amends="4")),
    "a correction by a list": (7, lambda of: of["body"].update(amends=[4])),
    "a correction of no entry": (7, lambda of: of["body"].pop("amends")),
    "a body of another kind": (6, lambda of: of.update(body={"reason": "so"})),
    "a release that pays nothing": (4, lambda of: of.update(charge=0, event=None)),
    "deep events": (5, lambda of: of.update(event=nested(of["event"], 40))),
}


def share(of: dict[str, Any], value: str) -> None:
    of["release"]["job"]["noise"]["share"] = value


def nested(inner: dict[str, Any], depth: int) -> dict[str, Any]:
    for _ in range(depth):
        inner = {"type": "composed", "version": 1, "events": [inner, inner], "count": 1}
        inner["events"] = inner["events"][:1]
    return {**inner, "count": 2}


@pytest.mark.parametrize("how", FORGED)
def test_a_forged_record_is_found_out_though_its_hashes_are_right(
    content: bytes, how: str
) -> None:
    lines = lines_of(content)
    place, forge = FORGED[how]
    forge(lines[place])
    if lines[place]["kind"] == "release" and lines[place]["release"]:
        seal = hashlib.sha256(canonical(lines[place]["release"]).encode()).hexdigest()
        if how != "another result":
            lines[place]["body"]["release_sha256"] = seal
    assert faults(rehashed(content, lines))[0][0] == place + 2


VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3)
    | st.sampled_from(["2026-01-05", "gdp", "rdp", "zcdp", "1e-6", "shop", "board", "0" * 64])
    | st.lists(st.integers(0, 3), max_size=2)
    | st.dictionaries(st.text(max_size=2), st.integers(), max_size=1)
)

T = TypeVar("T")


def paths(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a JSON document where a value stands, few of a long list."""
    keys: Sequence[Any] = ()
    if isinstance(document, dict):
        keys = list(document)
    elif isinstance(document, list):
        keys = range(min(len(document), 2))
    for key in keys:
        yield (*path, key)
        yield from paths(document[key], (*path, key))


@settings(max_examples=150)
@given(data=st.data())
def test_no_forgery_is_a_crash_and_what_is_let_in_is_intact(
    content: bytes, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    lines = lines_of(content)
    line = data.draw(st.sampled_from(lines))
    *way, last = data.draw(st.sampled_from(list(paths(line))))
    inner: Any = line
    for key in way:
        inner = inner[key]
    if data.draw(st.booleans()) and isinstance(inner, dict):
        del inner[last]
    else:
        inner[last] = data.draw(VALUES)
    if line.get("kind") == "release" and isinstance(line.get("body"), dict):
        seal = hashlib.sha256(canonical(line.get("release")).encode()).hexdigest()
        line["body"]["release_sha256"] = seal
    forged = rehashed(content, lines)
    with suppress(BrokenExportError):
        place = SQLite(tmp_path_factory.mktemp("forged"))
        assert moved(forged, place) == forged
        with closing(place.ledger()) as found:
            assert found.verify()[1] == []
            found.accounts()


# ---------------------------------------------------------------------------- the file itself


def test_a_new_file_is_whole_or_not_there(tmp_path: Path) -> None:
    path = tmp_path / "copy.jsonl"
    with transfer.new_file(path) as file:
        file.write(b"half")
        assert not path.exists()
    assert path.read_bytes() == b"half"
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(UsageError, match="is there already"), transfer.new_file(path):
        pytest.fail("it was there")
    path.unlink()
    with pytest.raises(KeyError), transfer.new_file(path) as file:
        raise KeyError
    with pytest.raises(UsageError, match="is there already"), transfer.new_file(path) as file:
        path.write_bytes(b"another's")
    assert path.read_bytes() == b"another's"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["none/copy.jsonl", "file/copy.jsonl", "x" * 300])
def test_a_file_that_cannot_be_made_is_an_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises((StorageError, UsageError)), transfer.new_file(tmp_path / name):
        pass


def test_a_full_disk_is_no_fault_of_the_ledger(place: Place) -> None:
    with (
        closing(filled(place)) as found,
        Path("/dev/full").open("wb", buffering=0) as full,
        pytest.raises(StorageError, match="the export: cannot be written"),
    ):
        found.export(full)


def test_a_record_of_the_first_format_moves_once_it_is_upgraded(
    tmp_path: Path, postgresql: Server
) -> None:
    old = golden_ledger(tmp_path / "old", 1)
    with closing(old.ledger()) as found:
        with pytest.raises(LedgerError, match="has format 1"):
            exported(found)
        found.upgrade()
        content, summary = exported(found)
    assert summary.entries == len(old.entries()) == ENTRIES_OF_1
    for place in (SQLite(tmp_path / "new"), PostgreSQL(tmp_path / "there", postgresql)):
        assert moved(content, place) == content
        assert place.entries() == old.entries()
