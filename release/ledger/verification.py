"""The record checked anew: what must hold of every account, derived from its rows alone.

Each invariant stands in the database as a constraint or a trigger too; this is for a ledger
whose triggers somebody removed. The hash chain finds what was changed afterwards, the sums and
the filter find what should never have been written, and a published head finds what was cut off.

Rows are checked as the texts that they are: what a row must say is worked out and compared. What
equal entries have in common is worked out once, so a record of a million is a matter of seconds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from sys import intern
from typing import NamedTuple

from release.accounting import AccountingError, Budget, Charge, Spend
from release.ledger import texts
from release.ledger.chain import Content, Line, digest, line_hash
from release.ledger.charges import NO_SPEND, Standing
from release.ledger.kinds import KINDS, MAY_FOLLOW, Amendment, Kind
from release.ledger.order import Order
from release.ledger.records import DECISIONS, HALTS, Halt, Terms

CUT_OFF = "the record was cut off at the end: a published page shows an entry that is not in it"
NO_ENTRY = "the account has no entry"
NO_CHARGE = "there is a result without its charge"
RELEASED = '{{"release_sha256":"{}"}}'
UNCHARGED = Standing()
BY_NAME = dict[str, Kind](KINDS.items())


@dataclass(frozen=True)
class Finding:
    """Something that is wrong with one entry of one account."""

    account: str
    seq: int
    what: str

    def __str__(self) -> str:
        return f"entry {self.seq} of account {self.account!r}: {self.what}"


class _Price(NamedTuple):
    """What an entry adds to an account, and what is wrong with its charge."""

    fault: str | None
    job: str | None
    added: Spend
    after: Standing


class _Prices:
    """What charges are worth on one account; equal ones are worked out once."""

    def __init__(self, terms: Terms) -> None:
        self.terms, self.budget = terms, terms.budget
        self.of_one = lru_cache(maxsize=texts.MANY)(self.of)

    def of(
        self, text: str, charge: Charge, job: str | None, before: Standing = UNCHARGED
    ) -> _Price | None:
        """Of a job's charge for an event, to which as much was charged before."""
        event = texts.event(text)
        if event is None:
            return None
        after, fault = before.after(self.terms, charge, event), None
        try:
            cost = self.budget.charge(event)
        except AccountingError:
            fault = "its event is none that the account could take"
        else:
            if after.charge.units < cost.units or after.charge.delta0 < cost.delta0:
                fault = "is charged less than its event costs"
        return _Price(fault, job, before.added(self.terms, charge, event), after)

    def admits(self, spent: Charge, charge: Charge) -> bool:
        """The filter; what is no charge at all was never admitted."""
        try:
            return self.budget.admits(spent, charge)
        except AccountingError:
            return False


@dataclass
class _Walk:
    """What the entries so far say, and so what the next one must."""

    prices: _Prices | None = None
    last: Line | None = None
    """The entry before; None at the start, and where it is missing or not to be believed."""
    sums: Spend | None = NO_SPEND
    doubted: bool = False
    """Whether some entry was; then what nothing is known of is taken as it comes."""
    spent_of: dict[str, int] = field(default_factory=dict)
    settled: defaultdict[tuple[str, str], set[str]] = field(
        default_factory=lambda: defaultdict(set)
    )
    """The first dates of the windows of one kind that a job has settled."""
    charged: dict[int, _Price] = field(default_factory=dict)
    """What stands charged for each entry that is no correction."""
    halted: dict[str, Halt] = field(default_factory=dict)

    def doubt(self) -> None:
        """Forgets what must follow from the entry before."""
        self.last, self.sums, self.doubted = None, None, True
        self.spent_of.clear()

    def before(self, line: Line) -> Charge:
        """What was spent before the entry."""
        if self.last is not None:
            return Charge(self.last.spent, self.last.delta_spent)
        if not self.doubted:
            return Charge(0)
        return Charge(line.spent - line.charge, line.delta_spent - line.delta_charge)

    def step(self, line: Line) -> None:
        """Takes the entry as read."""
        self.last = line
        if line.job is not None:
            self.spent_of[line.job] = line.job_spent


def checked(
    account: str,
    lines: Iterable[Line],
    contents: Iterable[Content],
    published: str | None = None,
) -> Iterator[Finding]:
    """Everything that is wrong with one account's record, in its order.

    Rows and stored results come in the order of their numbers, and are held one at a time.
    ``published`` is the hash of an entry that a published page shows.
    """
    order, walk, last = Order(), _Walk(), None
    results = _Results(contents)
    for line, after in _with_next(lines):
        content = results.of(line.seq)
        step = order.step(line, after)
        for seq, what in step.faults:
            yield Finding(account, seq, what)
        if published in (line.hash, line.previous):
            published = None
        last = line
        if not step.believed:
            continue
        if not step.follows:
            walk.doubt()
        written = line if order.shift == 0 else line._replace(seq=order.number)
        for what in _wrong(walk, written, content, moved=order.shift != 0):
            yield Finding(account, line.seq, what)
        walk.step(written)
    if last is None:
        yield Finding(account, 1, NO_ENTRY if published is None else CUT_OFF)
        return
    beyond = None if order.shift else results.of_none()
    if beyond is not None:
        yield Finding(account, beyond, NO_CHARGE)
    if published not in (None, line_hash(last, order.number)):
        yield Finding(account, order.seq + 1, CUT_OFF)


def _wrong(walk: _Walk, line: Line, content: Content | None, *, moved: bool) -> list[str]:
    found = [what for check in CHECKS for what in check(walk, line)]
    # Where entries were renumbered, results do not stand beside them: that was said.
    return found if moved else [*found, *_paid_for(line, content)]


class _Results:
    """The stored results, each taken with the entry that it stands beside."""

    def __init__(self, contents: Iterable[Content]) -> None:
        self._contents = iter(contents)
        self._next = next(self._contents, None)
        self._stray: int | None = None

    def of(self, seq: int) -> Content | None:
        """The result beside an entry. Those of entries that are missing are passed over."""
        while self._next is not None and self._next.seq < seq:
            if self._next.seq < 1:
                self._stray = self._next.seq
            self._next = next(self._contents, None)
        found = self._next
        if found is None or found.seq != seq:
            return None
        self._next = next(self._contents, None)
        return found

    def of_none(self) -> int | None:
        """The number of a result that stands beyond the record; None where there is none."""
        return self._next.seq if self._next is not None and self._stray is None else self._stray


def _with_next(lines: Iterable[Line]) -> Iterator[tuple[Line, Line | None]]:
    remaining = iter(lines)
    line = next(remaining, None)
    while line is not None:
        after = next(remaining, None)
        yield line, after
        line = after


def _opens(walk: _Walk, line: Line) -> Iterator[str]:
    first = walk.last is None and not walk.doubted
    if first != (line.kind == "open"):
        yield "an account is opened by its first entry, once"
    if not first or line.kind != "open":
        return
    terms = texts.body("open", line.body)
    if not isinstance(terms, Terms):
        return
    try:
        budget = Budget.open(terms.accountant, terms.epsilon, terms.delta, terms.threshold_share)
        walk.prices = _Prices(terms)
    except (AccountingError, ValueError, ArithmeticError):
        budget = None
    if terms.account != line.account or walk.prices is None or budget != walk.prices.budget:
        yield "the cap is not what epsilon, delta and the accountant allow"


def _dated(walk: _Walk, line: Line) -> Iterator[str]:
    if not texts.is_instant(line.charged_at):
        yield "when it was charged cannot be read"
    elif walk.last is not None and line.charged_at < walk.last.charged_at:
        yield "was charged at an earlier time than the entry before it"


def _adds_up(walk: _Walk, line: Line) -> Iterator[str]:
    units, delta0 = walk.before(line)
    if line.spent != units + line.charge or line.delta_spent != delta0 + line.delta_charge:
        yield "spent is not the sum of the charges"
    if line.job is None:
        of_job = 0
    elif line.job in walk.spent_of or not walk.doubted:
        of_job = walk.spent_of.get(line.job, 0) + line.charge
    else:
        of_job = line.job_spent
    if line.job_spent != of_job:
        yield "job_spent is not the sum of the job's charges"


def _charged(walk: _Walk, line: Line) -> Iterator[str]:
    kind = _kind(line)
    spends = kind is not None and kind.spends
    added: Spend | None = NO_SPEND
    if (line.event is not None) != spends:
        yield "what it is charged for is missing, or should not be there"
        added = None
    elif line.event is not None:
        added = yield from _priced(walk, line, line.event)
    elif line.charge or line.delta_charge:
        yield "is charged for nothing"
    yield from _odometer(walk, line, added)


def _priced(walk: _Walk, line: Line, event: str) -> Generator[str, None, Spend | None]:
    """What is wrong with the charge; gives what it adds to the sums, where that is known."""
    if texts.event(event) is None:
        yield "what it is charged for cannot be read"
    if walk.prices is None:
        return None
    seq, charge = line.seq, Charge(line.charge, line.delta_charge)
    if line.kind == "amend":
        body = texts.body(line.kind, line.body)
        seq = body.amends if isinstance(body, Amendment) else 0
        before = walk.charged.get(seq)
        if before is None and not walk.doubted:
            yield "corrects an entry that charged nothing"
        elif before is not None and before.job != line.job:
            yield "corrects a charge of another job"
        price = before and walk.prices.of(event, charge, line.job, before.after)
    else:
        price = walk.prices.of_one(event, charge, line.job)
        if not walk.prices.admits(walk.before(line), charge):
            yield "should have been refused: the budget did not allow it"
    if price is None:
        return None
    if price.fault is not None:
        yield price.fault
    walk.charged[seq] = price
    return price.added


def _odometer(walk: _Walk, line: Line, added: Spend | None) -> Iterator[str]:
    if walk.sums is not None and added is not None:
        sums = walk.sums if added is NO_SPEND else walk.sums.together(added)
        if line.sums == texts.written(sums):
            walk.sums = sums
            return
    # The entries after it are held to what it says itself.
    known, walk.sums = walk.sums is not None and added is not None, texts.sums(line.sums)
    if known or walk.sums is None:
        yield "the odometer's sums do not follow from the event"


def _settles_once(walk: _Walk, line: Line) -> Iterator[str]:
    window = line.window
    if line.job is None or window is None:
        return
    if not texts.is_window(window):
        yield "its window cannot be read, or does not begin or end on its dates"
    kind, first = window[:2]
    settled = walk.settled[line.job, kind]
    if first in settled:
        yield "settles a window that was settled before"
    settled.add(intern(first))


def _decides(walk: _Walk, line: Line) -> Iterator[str]:
    if line.kind not in DECISIONS or line.job is None:
        return
    kind = line.kind
    halt = walk.halted.pop(line.job, None)
    if kind not in MAY_FOLLOW[halt] and not walk.doubted:
        yield "does not follow from the last decision on the job"
    if kind in HALTS:
        walk.halted[line.job] = HALTS[kind]


def _says(walk: _Walk, line: Line) -> Iterator[str]:
    del walk
    kind = _kind(line)
    if kind is None:
        yield "is of no kind that this software knows"
        return
    # A release says nothing but the hash of its result, which is checked with that.
    if line.kind != "release" and texts.body(line.kind, line.body) is None:
        yield _says_not(line)
    if (line.job is None) != (kind.subject == "account") and kind.subject != "either":
        yield "its job is missing, or should not be there"
    if (line.window_kind is None) != (kind.subject != "window"):
        yield "its window is missing, or should not be there"


def _paid_for(line: Line, content: Content | None) -> Iterator[str]:
    if line.kind != "release":
        if content is not None:
            yield NO_CHARGE
        return
    if content is None:
        yield "there is a charge without its result"
    elif line.body != RELEASED.format(digest(content.content)):
        readable = texts.body(line.kind, line.body) is not None
        yield "its published result was edited" if readable else _says_not(line)
    else:
        yield from _describes(line, content)


def _describes(line: Line, content: Content) -> Iterator[str]:
    if content.settles != line.settles:
        yield "its published result is stored as another job's, or another window's"
    described = texts.described(content.content)
    if described is None:
        yield "its published result cannot be read"
    elif described != (line.job, line.event):
        yield "its published result is not what the event describes"


def _kind(line: Line) -> Kind | None:
    return BY_NAME.get(line.kind)


def _says_not(line: Line) -> str:
    return f"does not say what a {line.kind} must"


CHECKS: tuple[Callable[[_Walk, Line], Iterator[str]], ...] = (
    _opens,
    _dated,
    _adds_up,
    _charged,
    _settles_once,
    _decides,
    _says,
)
