"""An organisation's earlier spends, from a CSV file: what was spent before this ledger kept count.

Every row is checked against its account before any is charged, and all faults are reported
together. Numbers are decimals as they are written. An event holds numbers as JSON does, so one
that no binary fraction equals is taken as the next larger one: never less than what is written,
and at most one unit more.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, TypeVar
from zoneinfo import ZoneInfo

from pydantic import TypeAdapter, ValidationError

from release.accounting import (
    AccountingError,
    ApproximateDP,
    Charge,
    Event,
    PureDP,
    ZeroConcentrated,
    event_from_json,
    event_from_text,
)
from release.errors import Fault, RefusedError, UsageError
from release.ledger.kinds import History
from release.ledger.records import NOTHING, Entry, Terms
from release.specs import Line
from release.windows import EARLIEST

REQUIRED = ("date", "description")
SPENDS = ("event", "rho", "epsilon")
COLUMNS = (*REQUIRED, "account", *SPENDS, "delta")
MOST_BYTES = 2**24
NUMBER = re.compile(r"[0-9]{1,40}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,2})?")
A_NUMBER = "must be a number such as 0.25 or 1e-6"
AN_EVENT = "must be an event as JSON: docs/accounting.md shows the form of each"
GAUSSIAN = (
    "if it was Gaussian noise give its event, such as "
    '{"type": "gaussian", "version": 1, "sensitivity": 1, "sigma": 40}, in the column event. '
)
ONE_LINE: TypeAdapter[str] = TypeAdapter(Line)

T = TypeVar("T")


class HistoryError(UsageError):
    """Everything that is wrong with a file of earlier spends, at once. Nothing was charged."""

    kind: ClassVar[str] = "history"

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__(
            "the history cannot be charged as it is written:"
            + "".join(f"\n  {fault}" for fault in self.faults),
            hint="Nothing was charged. docs/commands.md says what a history holds.",
        )

    def document(self) -> dict[str, Any]:
        """The faults one by one beside the message."""
        return {**super().document(), "faults": [asdict(fault) for fault in self.faults]}


@dataclass(frozen=True)
class Spent:
    """One row: what was spent, and the line of the file that says so."""

    line: int
    body: History
    event: Event

    @property
    def key(self) -> tuple[date, str, Event]:
        """What no two spends of an account have in common."""
        return self.body.date, self.body.description, self.event


@dataclass(frozen=True)
class PastSpends:
    """The rows of a file by account, each one that its account can take."""

    file: str
    terms: Mapping[str, Terms]
    accounts: Mapping[str, Sequence[Spent]]

    def check_new(self, remembered: Mapping[str, Iterable[Entry]]) -> None:
        """Raises HistoryError with every row that its account has been charged for already."""
        faults = []
        for name, entries in remembered.items():
            known = {
                (body.date, body.description, event_from_json(entry.event)): entry.seq
                for entry in entries
                if entry.event is not None
                for body in [History.model_validate(entry.body)]
            }
            faults += [
                _twice(self.file, spent, f"entry {known[spent.key]} of account {name!r}")
                for spent in self.accounts[name]
                if spent.key in known
            ]
        if faults:
            raise HistoryError(sorted(faults, key=lambda fault: int(fault.key.split()[1])))

    def check_covered(self, name: str, spent: Charge = NOTHING) -> None:
        """Raises RefusedError where an account that has spent so much cannot take it all."""
        budget = self.terms[name].budget
        total = NOTHING
        for one in self.accounts[name]:
            total = total.plus(budget.charge(one.event))
        if not budget.admits(spent, total):
            raise RefusedError(
                f"the budget of account {name!r} does not cover what {self.file} says was spent",
                hint="Nothing was charged: an account's budget must cover its history. Before it "
                "is opened give it a larger one in dp-release.toml; afterwards open an account "
                "with a larger one that replaces it.",
            )


def read(
    path: Path, terms: Mapping[str, Terms], *, account: str | None, now: datetime
) -> PastSpends:
    """The spends that a file holds, by account; each names its own where ``account`` is None.

    Raises HistoryError with every row that says nothing which its account could be charged for,
    and UsageError where the file cannot be read at all.
    """
    table = _Table(path.name, terms, account, now)
    table.read(_text(path))
    if table.faults:
        raise HistoryError(table.faults)
    return PastSpends(path.name, terms, table.found)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise UsageError(f"{path}: is too large to be a history")
        return content.decode("utf-8-sig")
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be read ({error.strerror or type(error).__name__})",
            hint="Name a CSV file in UTF-8. Nothing was charged.",
        ) from None
    except UnicodeDecodeError:
        raise UsageError(
            f"{path}: is not text in UTF-8", hint="Save it as CSV in UTF-8. Nothing was charged."
        ) from None


class _UnfitError(Exception):
    """A cell that is not what its column must hold."""

    def __init__(self, column: str, found: str, allowed: str) -> None:
        super().__init__(found)
        self.column, self.found, self.allowed = column, found, allowed


@dataclass
class _Table:
    """The rows read so far, and what is wrong with any."""

    file: str
    terms: Mapping[str, Terms]
    account: str | None
    now: datetime
    found: dict[str, list[Spent]] = field(default_factory=dict)
    lines: dict[tuple[str, date, str, Event], int] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)

    def read(self, text: str) -> None:
        reader = csv.reader(io.StringIO(text, newline=""), strict=True)
        line = 1
        try:
            header = [name.strip() for name in next(reader, [])]
            self._check_header(header)
            if self.faults:
                return
            line = reader.line_num + 1
            for cells in reader:
                self._add(line, header, [cell.strip() for cell in cells])
                line = reader.line_num + 1
        except csv.Error as error:
            self._fault(line, "", f"is not CSV ({error})", 'a cell that holds a " or , is quoted')
        if not self.found and not self.faults:
            self._fault(line, "", "the file holds no row", "must hold one row for each spend")

    def _check_header(self, header: Sequence[str]) -> None:
        required = (*REQUIRED, *(() if self.account else ("account",)))
        known = tuple(name for name in COLUMNS if name != "account" or not self.account)
        allowed = f"the columns are {', '.join(known)}, with commas between them"
        for place, name in enumerate(header, start=1):
            # A file without a header begins with a row, which may be private.
            if name not in known:
                self._fault(1, f"column {place}", "is an unknown column", allowed)
            elif name in header[: place - 1]:
                self._fault(1, name, "is a column twice", allowed)
        for name in required:
            if name not in header:
                self._fault(1, name, "is missing", allowed)
        if not set(SPENDS) & set(header):
            self._fault(1, "", "no column says what was spent", allowed)

    def _add(self, line: int, header: Sequence[str], row: Sequence[str]) -> None:
        if not row:
            return
        if len(row) != len(header):
            found = f"has {len(row)} cells, and the header {len(header)}"
            self._fault(line, "", found, "must have one cell for each column")
            return
        cells = dict.fromkeys(COLUMNS, "") | dict(zip(header, row, strict=True))
        name = self._kept(line, lambda: self._account(cells["account"]))
        day = self._kept(line, lambda: _date(cells["date"]))
        said = self._kept(line, lambda: _description(cells["description"]))
        event = self._kept(line, lambda: _event(cells))
        if name is not None and day is not None:
            self._kept(line, lambda: self._check_past(name, day))
        if name is not None and event is not None:
            self._kept(line, lambda: self._check_admitted(name, event, cells))
        if name is None or day is None or said is None or event is None:
            return
        spent = Spent(line, History(date=day, description=said), event)
        self.found.setdefault(name, []).append(spent)
        before = self.lines.setdefault((name, *spent.key), line)
        if before != line:
            self.faults.append(_twice(self.file, spent, f"line {before}"))

    def _account(self, name: str) -> str:
        name = self.account or name
        if name not in self.terms:
            known = ", ".join(sorted(self.terms))
            raise _UnfitError("account", "is the name of no dataset", f"must be one of {known}")
        return name

    def _check_past(self, name: str, day: date) -> None:
        today = self.now.astimezone(ZoneInfo(self.terms[name].time_zone)).date()
        if not EARLIEST <= day <= today:
            raise _UnfitError("date", f"is {day}", f"must be from {EARLIEST} to today, {today}")

    def _check_admitted(self, name: str, event: Event, cells: Mapping[str, str]) -> None:
        terms = self.terms[name]
        column = _column(cells)
        try:
            charge = terms.budget.charge(event)
        except AccountingError as error:
            way = GAUSSIAN if terms.accountant == "gdp" and column != "event" else ""
            raise _UnfitError(column, error.message, way + error.hint) from None
        if charge.delta0 > 0 and terms.delta_cap == 0:
            raise _UnfitError(
                "delta" if column == "epsilon" else column,
                f"has a δ, and account {name!r} has set none aside",
                "needs an account with a threshold_share, which is fixed when it is opened",
            )

    def _kept(self, line: int, check: Callable[[], T]) -> T | None:
        try:
            return check()
        except _UnfitError as unfit:
            self._fault(line, unfit.column, unfit.found, unfit.allowed)
            return None

    def _fault(self, line: int, column: str, found: str, allowed: str) -> None:
        where = f"line {line}" + (f" {column}" if column else "")
        self.faults.append(Fault(self.file, where, found, allowed))


def _twice(file: str, spent: Spent, where: str) -> Fault:
    return Fault(
        file,
        f"line {spent.line}",
        f"is what {where} says, with the same date, description and event",
        "must not be charged twice; where it was spent twice, the descriptions must differ",
    )


def _date(text: str) -> date:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        day = None
    if day is None or day.isoformat() != text:
        raise _UnfitError("date", "is not a date", "must be written as 2025-06-30")
    return day


def _description(text: str) -> str:
    try:
        return ONE_LINE.validate_python(text)
    except ValidationError:
        raise _UnfitError(
            "description",
            "is empty, or holds a control character",
            "must say in one line of text what was done",
        ) from None


def _column(cells: Mapping[str, str]) -> str:
    """The one column that says what was spent."""
    given = [name for name in SPENDS if cells[name]]
    if len(given) != 1:
        raise _UnfitError(
            "",
            f"says what was spent in {' and '.join(given) or 'no column'}",
            f"must fill exactly one of {', '.join(SPENDS)}",
        )
    return given[0]


def _event(cells: Mapping[str, str]) -> Event:
    column = _column(cells)
    if column != "epsilon" and cells["delta"]:
        raise _UnfitError("delta", f"stands beside {column}", "must stand beside epsilon alone")
    try:
        if column == "event":
            return event_from_text(cells["event"])
        if column == "rho":
            return ZeroConcentrated(_number("rho", cells["rho"]))
        epsilon = _number("epsilon", cells["epsilon"])
        delta = _number("delta", cells["delta"]) if cells["delta"] else 0
        return ApproximateDP(epsilon, delta) if delta else PureDP(epsilon)
    except AccountingError as error:
        raise _UnfitError(column, error.message, error.hint or AN_EVENT) from None


def _number(column: str, text: str) -> float:
    """The least float that is not below the decimal."""
    if not NUMBER.fullmatch(text):
        raise _UnfitError(column, "is not a number", A_NUMBER)
    exact = Fraction(Decimal(text))
    near = float(exact)
    return near if Fraction(near) >= exact else math.nextafter(near, math.inf)
