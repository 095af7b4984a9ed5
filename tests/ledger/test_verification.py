"""Whatever is done to a record is found, at the right entry and by its name, and once."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from release.accounting import Gaussian, Laplace, Spend
from release.errors import LedgerError
from release.ledger import order, rows, schema, texts
from release.ledger.chain import Content, Line, canonical, digest, entry_hash, line_hash
from release.ledger.kinds import Decision, Notice
from release.ledger.order import EDITED, INSERTED, REPLACED
from release.ledger.records import Release, Terms
from release.ledger.rows import line_of
from release.ledger.store import Ledger
from release.ledger.transfer import AccountCopy, LedgerCopy, Summary
from release.ledger.verification import CUT_OFF, NO_CHARGE, Finding, checked
from release.pipeline import plan
from tests.command import dp_release
from tests.ledger.examples import ABOUT, NOW, funded, job, opened, release, sealed, week
from tests.ledger.places import Place, SQLite
from tests.ledger.shops import shop as project

Said = list[tuple[int, str]]
OPENING = funded("zcdp", threshold_share="0.1")
# 1 open, 2 project, 3 and 5 release, 4 record, 6 refusal, 7 record, 8 amend of 4, 9 notice,
# 10 release, 11 pause
FIRST, ELSEWHERE, SECOND, REFUSED, LAPLACE, AMENDED, NOTICE, THIRD, LAST = (
    3,
    4,
    5,
    6,
    7,
    8,
    9,
    10,
    11,
)


def fill(place: Place) -> None:
    """A record of every sort of entry, each beside others that it could be mistaken for."""
    board, mean = plan(job("board", 2, "0.3"), OPENING), plan(job("mean", 9, "0.3"), OPENING)
    with closing(opened(place, opening=OPENING)) as found:
        release(found, week(0), board)
        with found.writing("shop") as writer:
            writer.record(Gaussian(1, 300), "elsewhere", NOW)
        for number in (1, 2):
            release(found, week(number), board)
        with found.writing("shop") as writer:
            writer.record(Laplace(1, 300), "elsewhere", NOW)
            writer.amend(ELSEWHERE, Gaussian(1, 200), "a bound was wrong", NOW)
            writer.note("notice", Notice(text="corrected"), NOW, job="board")
        release(found, week(0), mean)
        with found.writing("shop") as writer:
            writer.note("pause", Decision(reason="for now"), NOW, job="mean")


@pytest.fixture
def shop(place: Place) -> Place:
    """That record, in a database whose rules are gone."""
    fill(place)
    place.lift_rules()
    assert not verified(place)
    return place


def verified(place: Place, **heads: str) -> Said:
    with closing(place.ledger()) as found:
        return [(one.seq, one.what) for one in found.verify(heads)[1]]


def missing(seq: int) -> str:
    return f"entry {seq} is missing before it"


def moved(seq: int) -> str:
    return f"was written as entry {seq}: entries changed places"


def renumber(place: Place, by: int, above: int) -> None:
    """Gives entries other numbers, and their results with them."""
    for table in ("entries", "releases"):
        place.sql(f"UPDATE {table} SET seq = -(seq + {by}) WHERE seq > {above}")  # noqa: S608
        place.sql(f"UPDATE {table} SET seq = -seq WHERE seq < 0")  # noqa: S608


def swap(place: Place, one: int, other: int) -> None:
    for table in ("entries", "releases"):
        for old, new in ((one, -1), (other, one), (-1, other)):
            place.sql(f"UPDATE {table} SET seq = {new} WHERE seq = {old}")  # noqa: S608


def insert(place: Place, row: dict[str, Any]) -> None:
    names = ", ".join(row)
    place.sql(f"INSERT INTO entries ({names}) VALUES (:{', :'.join(row)})", row)  # noqa: S608


def forged(place: Place, seq: int) -> dict[str, Any]:
    """A notice that nobody gave, with a hash of its own, to follow the entry before ``seq``."""
    before, like = place.entries()[seq - 2], place.entries()[NOTICE - 1]
    kept = {name: before[name] for name in ("spent", "delta_spent", "sums", "charged_at")}
    row = {**like, **kept, "seq": seq, "job": None, "job_spent": 0, "previous": before["hash"]}
    return {**row, "hash": sealed(row)}


def write(place: Place, entries: Sequence[dict[str, Any]]) -> None:
    columns = ", ".join(f"{name} = :{name}" for name in entries[0])
    place.sql(f"UPDATE entries SET {columns} WHERE seq = :seq", *entries)  # noqa: S608


def forge(place: Place, seq: int, *, until: int = 10**6, **changes: Any) -> None:
    """Changes an entry, and makes the hashes anew of it and of those up to another."""
    entries = place.entries()
    entries[seq - 1].update(changes)
    for before, entry in pairwise(entries):
        if seq <= entry["seq"] <= until:
            entry["previous"] = before["hash"]
            entry["hash"] = sealed(entry)
    write(place, entries)


def changed(place: Place, seq: int, column: str, **members: Any) -> str:
    return canonical({**json.loads(place.entries()[seq - 1][column]), **members})


# ------------------------------------------------------------------ the five kinds of tampering


def test_an_edited_entry(shop: Place) -> None:
    shop.sql("UPDATE entries SET charge = charge + 1 WHERE seq = 4")
    assert verified(shop) == [(ELSEWHERE, EDITED)]
    shop.sql("UPDATE entries SET hash = 'x' WHERE seq = 11")
    assert verified(shop) == [(ELSEWHERE, EDITED), (LAST, EDITED)]


def test_an_edited_result(shop: Place) -> None:
    shop.sql("UPDATE releases SET content = replace(content, 'Tea', 'Teas') WHERE seq = 5")
    assert verified(shop) == [(SECOND, "its published result was edited")]


def test_a_result_kept_for_another_window(shop: Place) -> None:
    shop.sql("UPDATE releases SET window_first = '2027-01-04' WHERE seq = 5")
    what = "its published result is stored as another job's, or another window's"
    assert verified(shop) == [(SECOND, what)]


@pytest.mark.parametrize(("until", "what"), [(0, EDITED), (ELSEWHERE, REPLACED)])
def test_an_entry_that_was_replaced(shop: Place, until: int, what: str) -> None:
    body = changed(shop, ELSEWHERE, "body", reason="something else")
    forge(shop, ELSEWHERE, until=until, body=body)
    assert verified(shop) == [(ELSEWHERE, what)]


def test_missing_entries(shop: Place) -> None:
    shop.sql("DELETE FROM entries WHERE seq = 4")
    assert verified(shop) == [(SECOND, missing(ELSEWHERE))]
    shop.sql("DELETE FROM entries WHERE seq IN (5, 9)")
    gone = [(REFUSED, "entries 4 to 5 are missing before it"), (THIRD, missing(NOTICE))]
    assert verified(shop) == gone


def test_the_first_entry_is_missing(shop: Place) -> None:
    shop.sql("DELETE FROM entries WHERE seq = 1")
    assert verified(shop) == [(2, missing(1))]


def test_a_missing_entry_whose_number_was_given_away(shop: Place) -> None:
    shop.sql("DELETE FROM entries WHERE seq = 4")
    renumber(shop, -1, above=4)
    assert verified(shop) == [(ELSEWHERE, missing(ELSEWHERE))]


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        (4, 5, [(4, moved(5))]),
        (10, 11, [(10, moved(11))]),
        (4, 9, [(4, moved(9)), (9, moved(4))]),
        (1, 11, [(1, moved(11)), (11, moved(1))]),
    ],
)
def test_entries_that_changed_places(shop: Place, one: int, other: int, found: Said) -> None:
    swap(shop, one, other)
    assert verified(shop) == found


def test_an_entry_that_was_moved_up(record: Record) -> None:
    places = {NOTICE: ELSEWHERE, **{seq: seq + 1 for seq in range(ELSEWHERE, NOTICE)}}
    assert record.renumbered(places).said() == [(ELSEWHERE, moved(NOTICE))]


def test_a_huge_row_that_was_put_in_does_not_stall_the_search(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[int] = []

    def counted(line: Line, seq: int) -> str | None:
        hashed.append(len(line.body))
        return line_hash(line, seq)

    monkeypatch.setattr(order, "line_hash", counted)
    huge = json.dumps({"text": "x" * (order.LOOKED_THROUGH // 4)})
    assert record.changed(ELSEWHERE, body=huge).said()[0] == (ELSEWHERE, EDITED)
    # As often as it may be looked for, and a few times for what stands around it.
    assert sum(size > 1_000_000 for size in hashed) < 20


@pytest.mark.parametrize("seq", [4, 9, 11])
def test_an_inserted_entry(shop: Place, seq: int) -> None:
    row = forged(shop, seq)
    renumber(shop, 1, above=seq - 1)
    insert(shop, row)
    assert verified(shop) == [(seq, INSERTED)]


@pytest.mark.parametrize("seq", [-3, 0])
def test_an_entry_inserted_before_all_others(shop: Place, seq: int) -> None:
    insert(shop, {**forged(shop, 12), "seq": seq})
    what = moved(12)
    assert verified(shop) == [(seq, what)]


def test_an_entry_appended_to_nothing(shop: Place) -> None:
    row = {**forged(shop, 12), "previous": "f" * 64}
    insert(shop, {**row, "hash": sealed(row)})
    assert verified(shop) == [(12, INSERTED)]


def test_what_was_cut_off_is_known_from_a_page(shop: Place) -> None:
    last = shop.entries()[-1]["hash"]
    assert not verified(shop, shop=last)
    shop.sql("DELETE FROM entries WHERE seq > 8")
    assert verified(shop, shop=last) == [(THIRD, NO_CHARGE), (NOTICE, CUT_OFF)]
    shop.sql("DELETE FROM releases WHERE seq > 8")
    assert not verified(shop)
    assert verified(shop, shop=last) == [(NOTICE, CUT_OFF)]
    assert verified(shop, other=last) == [(1, CUT_OFF)]


def test_a_page_shows_an_entry_of_a_record_that_is_gone(tmp_path: Path) -> None:
    assert verified(SQLite(tmp_path), shop="0" * 64) == [(1, CUT_OFF)]


@pytest.mark.parametrize("tampering", ["UPDATE entries SET hash = 'x'", "DELETE FROM entries"])
@pytest.mark.parametrize("seq", [4, 10])
def test_an_entry_on_a_page_is_missed_only_where_it_was_cut_off(
    shop: Place, tampering: str, seq: int
) -> None:
    shown = shop.entries()[seq - 1]["hash"]
    shop.sql(f"{tampering} WHERE seq = {seq}")
    ((_, what),) = verified(shop, shop=shown)
    assert what in {EDITED, missing(seq)}


def test_a_record_that_was_written_anew_is_known_from_a_page(shop: Place) -> None:
    shown = shop.entries()[-1]["hash"]
    forge(shop, ELSEWHERE, body=changed(shop, ELSEWHERE, "body", reason="something else"))
    assert not verified(shop)
    assert verified(shop, shop=shown) == [(12, CUT_OFF)]


def test_the_command_holds_the_record_to_the_site(tmp_path: Path) -> None:
    folder = project(tmp_path / "shop", jobs=("board",))
    assert dp_release(folder, "run", "--now", "2026-01-20T06:00:00Z", "--yes").code in {0, 3}
    assert dp_release(folder, "ledger", "verify", "--json").document["intact"]
    place = SQLite(folder)
    place.lift_rules()
    last = place.entries()[-1]["seq"]
    for table in ("releases", "entries"):
        place.sql(f"DELETE FROM {table} WHERE seq = {last}")  # noqa: S608
    found = dp_release(folder, "ledger", "verify", "--json")
    assert found.code == 5
    assert found.document["faults"] == [{"account": "shop", "seq": last, "what": CUT_OFF}]


# ------------------------------------------------------------- with all hashes made anew


FORGERIES: list[tuple[int, dict[str, Any], str]] = [
    (FIRST, {"charge": 1}, "spent is not the sum of the charges"),
    (FIRST, {"job_spent": 1}, "job_spent is not the sum of the job's charges"),
    (REFUSED, {"kind": "lottery"}, "is of no kind that this software knows"),
    (REFUSED, {"window_first": "2026-01-06"}, "its window cannot be read, or does not begin"),
    (REFUSED, {"window_first": "monday"}, "its window cannot be read, or does not begin"),
    (REFUSED, {"window_zone": "Europe"}, "its window cannot be read, or does not begin"),
    (REFUSED, {"window_zone": "Mars/Olympus"}, "its window cannot be read, or does not begin"),
    (REFUSED, {"window_end": "2026-01-27"}, "its window cannot be read, or does not begin"),
    (LAPLACE, {"charged_at": "today"}, "when it was charged cannot be read"),
    (LAPLACE, {"charged_at": "2026-06-31T12:30:15.123456Z"}, "when it was charged cannot be read"),
    (LAPLACE, {"charged_at": "2026-05-31T12:30:15.123456Z"}, "was charged at an earlier time"),
    (LAPLACE, {"event": "{}"}, "what it is charged for cannot be read"),
    (LAPLACE, {"event": None}, "what it is charged for is missing"),
    (LAPLACE, {"sums": "{}"}, "the odometer's sums do not follow from the event"),
    (NOTICE, {"body": "{}"}, "does not say what a notice must"),
    (NOTICE, {"event": canonical(Laplace(1, 30).to_json())}, "what it is charged for is missing"),
    (THIRD, {"body": "{}"}, "does not say what a release must"),
    (THIRD, {"job": "tea"}, "its published result is stored as another job's"),
    (LAST, {"kind": "resume"}, "does not follow from the last decision on the job"),
    (LAST, {"job": None}, "its job is missing"),
]


@pytest.mark.parametrize(("seq", "changes", "what"), FORGERIES)
def test_a_forgery_with_new_hashes(
    shop: Place, seq: int, changes: dict[str, Any], what: str
) -> None:
    forge(shop, seq, **changes)
    found = verified(shop)
    assert found[0][0] == seq
    assert any(where == seq and said.startswith(what) for where, said in found)
    # Nothing but that, and what the next entry, and the job's next, are held to by it.
    assert {where for where, _ in found} <= {seq, seq + 1, SECOND, THIRD}


@pytest.mark.parametrize("column", ["event", "sums", "body"])
@pytest.mark.parametrize("text", ["[]", "7", "x", '{"a": 1}', '{"a":1,"a":2}', "NaN", "[" * 10**5])
def test_a_text_that_the_ledger_does_not_write(column: str, text: str, record: Record) -> None:
    lines = record.changed(LAPLACE, **{column: text}).lines
    resealed = [*lines[: LAPLACE - 1], *linked(lines[LAPLACE - 1 :])]
    found = Record(resealed, record.contents).said()
    assert found[0][0] == LAPLACE
    assert EDITED not in dict(found).values()


def test_a_text_may_not_borrow_from_the_next_column(record: Record) -> None:
    """The same bytes under the same hash, but the charge is another."""
    line = record.lines[LAPLACE - 1]
    body = f'{line.body},"charge":{line.charge},"charged_at":"{line.charged_at}","x":{{}}'
    forged_line = line._replace(body=body)
    assert line_hash(forged_line, LAPLACE) != line.hash
    forged_line = forged_line._replace(hash=line_hash(forged_line, LAPLACE) or "")
    lines = [*record.lines[: LAPLACE - 1], forged_line]
    assert Record(lines, record.contents).said()[0] == (LAPLACE, "does not say what a record must")


# ---------------------------------------------------------------------------- corrections


def amended(place: Place, event: Gaussian, units: int, sums: Callable[[Spend], Spend]) -> None:
    """Writes a correction as a forger would, whatever its charge, with everything after it."""
    entry = place.entries()[AMENDED - 1]
    before = place.entries()[AMENDED - 2]
    written = Spend.from_json(json.loads(entry["sums"]))
    for table in ("entries", "releases"):
        place.sql(f"DELETE FROM {table} WHERE seq > {AMENDED}")  # noqa: S608
    changes = {"charge": units, "spent": before["spent"] + units}
    text = canonical(sums(written).to_json())
    forge(place, AMENDED, event=canonical(event.to_json()), sums=text, **changes)


def test_a_correction_that_charges_too_little(shop: Place) -> None:
    entry = shop.entries()[AMENDED - 1]

    def as_charged(sums: Spend) -> Spend:
        return sums

    amended(shop, Gaussian(1, 200), entry["charge"] - 1, as_charged)
    assert (AMENDED, "is charged less than its event costs") in verified(shop)


@pytest.mark.parametrize("part", ["gaussian", "rho", "delta0"])
def test_a_correction_whose_sums_are_too_low(shop: Place, part: str) -> None:
    charge = shop.entries()[AMENDED - 1]["charge"]

    def lower(sums: Spend) -> Spend:
        return replace(sums, **{part: getattr(sums, part) - 1})

    amended(shop, Gaussian(1, 200), charge, lower)
    assert verified(shop) == [(AMENDED, "the odometer's sums do not follow from the event")]


@pytest.mark.parametrize(
    ("seq", "what"),
    [
        (REFUSED, "corrects an entry that charged nothing"),
        (AMENDED, "corrects an entry that charged nothing"),
        (THIRD, "corrects an entry that charged nothing"),
        (FIRST, "corrects a charge of another job"),
    ],
)
def test_a_correction_of_what_it_may_not_correct(shop: Place, seq: int, what: str) -> None:
    forge(shop, AMENDED, body=changed(shop, AMENDED, "body", amends=seq))
    assert (AMENDED, what) in verified(shop)


# ------------------------------------------------------------------------ any tampering at all


@dataclass(frozen=True)
class Record:
    """One account's rows in memory."""

    lines: Sequence[Line] = field(repr=False)
    contents: Sequence[Content] = field(repr=False)

    def said(self) -> Said:
        lines = sorted(self.lines, key=lambda line: line.seq)
        contents = sorted(self.contents, key=lambda content: content.seq)
        found: Iterator[Finding] = checked("shop", lines, contents)
        return [(one.seq, one.what) for one in found]

    def changed(self, at: int, **changes: Any) -> Record:
        lines = [one._replace(**changes) if one.seq == at else one for one in self.lines]
        return replace(self, lines=lines)

    def without(self, *seqs: int) -> Record:
        lines = [line for line in self.lines if line.seq not in seqs]
        return Record(lines, [one for one in self.contents if one.seq not in seqs])

    def renumbered(self, places: Mapping[int, int]) -> Record:
        """With the entries at other places, and their results beside them."""
        lines = [one._replace(seq=places.get(one.seq, one.seq)) for one in self.lines]
        contents = [one._replace(seq=places.get(one.seq, one.seq)) for one in self.contents]
        return Record(lines, contents)


def linked(lines: Sequence[Line]) -> list[Line]:
    """The same lines with hashes that hold, each following the one before."""
    made: list[Line] = []
    for line in lines:
        follows = line._replace(previous=made[-1].hash) if made else line
        made.append(follows._replace(hash=line_hash(follows, line.seq) or ""))
    return made


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Record:
    place = SQLite(tmp_path_factory.mktemp("record"))
    fill(place)
    contents = place.sql("SELECT * FROM releases ORDER BY seq")
    found = Record(
        [Line(**row) for row in place.entries()],
        [Content(*(row[name] for name in Content._fields)) for row in contents],
    )
    assert not found.said()
    return found


def test_a_row_hashes_as_its_entry_does(record: Record) -> None:
    assert Line._fields == tuple(schema.entries.c.keys())
    for line in record.lines:
        entry = rows.entry_of(line._asdict())
        assert line_hash(line, line.seq) == entry_hash(entry) == sealed(line._asdict())
        assert rows.line_of(entry) == line
        assert line_hash(line, line.seq + 1) != line.hash


NUMBERS = st.integers(-(2**63), 2**63 - 1)
WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)


@given(data=st.data())
def test_any_edit_of_one_column_is_found_at_its_entry(record: Record, data: st.DataObject) -> None:
    line = data.draw(st.sampled_from(record.lines))
    column = data.draw(st.sampled_from([name for name in Line._fields if name != "seq"]))
    old = getattr(line, column)
    others = [getattr(one, column) for one in record.lines]
    values = st.one_of(NUMBERS if isinstance(old, int) else WORDS, st.sampled_from(others))
    new = data.draw(values.filter(lambda value: value != old))
    ((seq, what),) = record.changed(line.seq, **{column: new}).said()
    assert seq == line.seq
    assert what == EDITED or (column == "previous" and line.seq == LAST and what == INSERTED)


@given(data=st.data())
def test_any_other_number_is_found(record: Record, data: st.DataObject) -> None:
    line = data.draw(st.sampled_from(record.lines))
    taken = {one.seq for one in record.lines}
    new = data.draw(st.integers(-50, 50).filter(lambda value: value not in taken))
    found = dict(record.renumbered({line.seq: new}).said())
    assert found[new].startswith(f"was written as entry {line.seq}")


@given(data=st.data())
def test_any_deletion_is_found_at_the_next_entry(record: Record, data: st.DataObject) -> None:
    first = data.draw(st.integers(1, LAST - 1))
    last = data.draw(st.integers(first, LAST - 1))
    rest = record.without(*range(first, last + 1))
    which = f"entry {first} is" if first == last else f"entries {first} to {last} are"
    assert rest.said() == [(last + 1, f"{which} missing before it")]
    closed = {seq: seq - (last + 1 - first) for seq in range(last + 1, LAST + 1)}
    assert rest.renumbered(closed).said() == [(first, f"{which} missing before it")]


@given(data=st.data())
def test_any_swap_is_found_at_both_entries(record: Record, data: st.DataObject) -> None:
    one, other = sorted(data.draw(st.sets(st.integers(1, LAST), min_size=2, max_size=2)))
    found = record.renumbered({one: other, other: one}).said()
    expected = [(one, moved(other)), (other, moved(one))]
    assert found == expected[: 1 if other == one + 1 else 2]


@given(data=st.data())
def test_any_inserted_row_is_found_at_its_place(record: Record, data: st.DataObject) -> None:
    seq = data.draw(st.integers(2, LAST))
    like = data.draw(st.sampled_from(record.lines))
    row = like._replace(seq=seq, charge=data.draw(st.integers(0, 9)))
    if data.draw(st.booleans()):
        row = row._replace(previous=record.lines[seq - 2].hash)
    if data.draw(st.booleans()):
        row = row._replace(hash=line_hash(row, seq) or "")
    else:
        row = row._replace(hash=digest(row.hash))
    rest = record.renumbered({old: old + 1 for old in range(seq, LAST + 1)})
    assert replace(rest, lines=[*rest.lines, row]).said() == [(seq, INSERTED)]


# ------------------------------------------------------------------------------ stored results


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORDS, inner, max_size=2),
    max_leaves=3,
)


def places(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where values stand in a document."""
    yield path
    members = document.items() if isinstance(document, dict) else ()
    for key, value in enumerate(document) if isinstance(document, list) else members:
        yield from places(value, (*path, key))


def readable(text: str) -> bool:
    try:
        Release.model_validate_json(text)
    except ValidationError:
        return False
    return True


@given(data=st.data())
def test_a_result_is_readable_just_where_the_model_reads_it(
    record: Record, data: st.DataObject
) -> None:
    document = json.loads(data.draw(st.sampled_from(record.contents)).content)
    *path, last = data.draw(st.sampled_from([one for one in places(document) if one]))
    within = document
    for key in path:
        within = within[key]
    if data.draw(st.booleans()):
        within[last] = data.draw(JSON)
    else:
        del within[last]
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    if texts.described(text) is not None:
        assert readable(text)
    elif "mechanism" not in path:
        assert not readable(text)


@given(
    value=st.floats(allow_nan=False, allow_infinity=False) | st.none(),
    group=st.text(st.characters(exclude_categories=["Cs"])),
    rank=st.integers() | st.none(),
)
def test_the_pattern_takes_in_all_that_the_ledger_writes(
    record: Record, value: float | None, group: str, rank: int | None
) -> None:
    result = Release.model_validate_json(record.contents[0].content)
    row = result.table.rows[0].model_copy(update={"value": value, "group": group, "rank": rank})
    table = result.table.model_copy(update={"rows": (row,) * 2})
    text = canonical(result.model_copy(update={"table": table}).model_dump(mode="json"))
    assert readable(text)
    assert texts.DRAWN.fullmatch(f'{{"noisy":{text.partition(texts.NOISY)[2]}')


@given(
    gaussian=st.integers(0), rho=st.none() | st.integers(0), curve=st.none() | st.just((1, 2, 3))
)
def test_sums_are_written_in_canonical_json(
    gaussian: int, rho: int | None, curve: tuple[int, ...] | None
) -> None:
    sums = Spend(gaussian=gaussian, rho=rho, delta0=7, curve=curve)
    assert texts.written(sums) == canonical(sums.to_json())


def test_an_account_that_lost_its_row(shop: Place) -> None:
    shop.lift_rules()
    shop.sql("DELETE FROM accounts")
    found = shop.ledger()
    said = [(one.seq, one.what) for one in found.verify()[1]]
    found.close()
    assert said == [(1, "the account is missing from the table of accounts")]


def test_a_result_of_an_account_that_never_was(place: Place) -> None:
    opening = funded("zcdp")
    found = opened(place, opening=opening)
    release(found, week(0), plan(job(), opening))
    place.lift_rules()
    stray = {**place.sql("SELECT * FROM releases")[0], "account": "nobody"}
    names = ", ".join(stray)
    values = ", ".join(f":{name}" for name in stray)
    place.sql(f"INSERT INTO releases ({names}) VALUES ({values})", stray)  # noqa: S608
    said = [(one.account, one.what) for one in found.verify()[1]]
    found.close()
    assert said == [("nobody", "the account has no entry")]


@pytest.mark.parametrize("number", ['"4"', "4.0", "true"])
def test_a_body_says_its_numbers_as_numbers(number: str) -> None:
    said = f'{{"amends":{number},"format":1,"reason":"too low"}}'
    assert texts.body("amend", said) is None
    assert texts.body("amend", said.replace(number, "4")) is not None


def heir(name: str = "heir") -> Terms:
    return funded("gdp").model_copy(update={"account": name, "replaces": "shop"})


NOT_CARRIED = "entry 3 of account 'heir': is not all that account 'shop' has spent"


def test_an_account_that_did_not_take_over_the_spend(place: Place, tmp_path: Path) -> None:
    """Nor is such a record exported, or brought in, though each account is intact by itself."""
    found = opened(place, opening=funded("gdp"))
    with found.writing("shop") as writer:
        writer.record(Gaussian(1, 30), "elsewhere", NOW)
    found.open_account(heir().model_copy(update={"replaces": None}), ABOUT, NOW)
    assert not found.verify()[1]
    # As if it had been opened as an heir, by somebody who knows how to make hashes.
    place.lift_rules()
    accounts = {
        account.terms.account: [line_of(entry) for entry in account.entries]
        for account in found.accounts()
    }
    first, second = accounts["heir"]
    first = first._replace(body=first.body.replace('"replaces":null', '"replaces":"shop"'))
    first = first._replace(hash=line_hash(first, 1) or "")
    second = second._replace(previous=first.hash)
    second = second._replace(hash=line_hash(second, 2) or "")
    accounts["heir"] = [first, second]
    for line in accounts["heir"]:
        names = ("body", "previous", "hash")
        changes = ", ".join(f"{name} = :{name}" for name in names)
        row = {name: getattr(line, name) for name in (*names, "seq")}
        place.sql(f"UPDATE entries SET {changes} WHERE account = 'heir' AND seq = :seq", row)  # noqa: S608
    assert [str(one) for one in found.verify()[1]] == [NOT_CARRIED]
    with pytest.raises(LedgerError, match=NOT_CARRIED):
        found.export(io.BytesIO())
    found.close()
    copies = {name: AccountCopy(lines) for name, lines in accounts.items()}
    empty = Ledger(tmp_path, "sqlite:///empty.db", wait=1)
    with pytest.raises(LedgerError, match=NOT_CARRIED):
        empty.restore(LedgerCopy("copy", copies, Summary(2, 5, "")))
    assert empty.accounts() == []
    empty.close()


def test_an_account_that_took_over_all_is_no_finding(place: Place) -> None:
    found = opened(place, opening=funded("gdp"))
    with found.writing("shop") as writer:
        writer.record(Gaussian(1, 30), "elsewhere", NOW)
        writer.amend(3, Gaussian(1, 20), "too low", NOW)
    found.open_account(heir(), ABOUT, NOW - timedelta(days=9))
    assert not found.verify()[1]
    opened_at = found.accounts()[0].opened_at
    found.close()
    # No heir is older than what it takes over.
    assert opened_at == NOW
