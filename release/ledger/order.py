"""Where each entry stands, told from the hashes alone: what was edited, inserted, moved, lost.

An entry is hashed with its number and with the hash of the one before it. So a row whose hash
does not hold was edited; one whose hash holds under another number has been moved; and of two
neighbours that do not follow from one another, the rows around them show which is out of place.
After something wrong the walk goes on from the next entry that can be believed, so that one
wrong row is not reported again with every row after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from release.ledger.chain import GENESIS, Line, line_hash

NEAR = 1000
"""How far from its place an entry is looked for that was moved, in entries."""
LOOKED_THROUGH = 20_000_000
"""And in how much text: one huge row that somebody put in must not stall the search."""

EDITED = "was edited after it was written: its hash does not match what it says"
INSERTED = "does not belong here: it was inserted, or put in the place of another entry"
REPLACED = (
    "was edited and given a new hash, or an entry after it is missing: "
    "the next entry follows from another one"
)
Fault = tuple[int, str]
"""The number of a row, and what is wrong with it."""


@dataclass(frozen=True)
class Step:
    """What one row is to the chain."""

    faults: Sequence[Fault] = ()
    believed: bool = True
    """Whether it says what was once written."""
    follows: bool = True
    """Whether the entry before it is known, so that its sums must follow from there."""


SOUND = Step()


@dataclass
class Order:
    """A record's rows up to some row, in the order of their numbers."""

    seq: int = 0
    """The number that the last row has."""
    number: int = 0
    """The number under which it was written."""
    shift: int = 0
    """By how much rows were written under a higher number than they have, so far as is known."""
    tip: str | None = GENESIS
    """What the next entry must name as the hash before it; None where that is not known."""
    early: set[int] = field(default_factory=set)
    """The entries that stood before their place."""

    def step(self, line: Line, after: Line | None) -> Step:
        """Takes the next row, in view of the one after it."""
        number = line.seq + self.shift
        if (
            number == self.number + 1
            and line.previous == self.tip
            and (after is None or after.previous == line.hash)
            and line_hash(line, number) == line.hash
        ):
            self.seq, self.number, self.tip = line.seq, number, line.hash
            return SOUND
        return self._diagnosed(line, after)

    def _diagnosed(self, line: Line, after: Line | None) -> Step:
        number = self._written_as(line)
        due, expected = self.number + 1, line.seq + self.shift
        if line.seq <= self.seq:
            return self._out_of_line(line, number)
        if self._passed_over(after):
            # The next row stands where this one does not belong.
            self.seq, self.shift = line.seq, self.shift - 1
            return self._out_of_line(line, None if number == expected else number)
        if number is None:
            return self._edited(line, after)
        leads = after is None or line_hash(after, number + 1) == after.hash
        if number < due or (number not in (expected, due) and not leads):
            self._pass(line)
            return self._out_of_line(line, number)
        return self._believed(line, number, after)

    def _believed(self, line: Line, number: int, after: Line | None) -> Step:
        due, expected, tip = self.number + 1, line.seq + self.shift, self.tip
        before, faults = self.seq, self._missing(line, number)
        if number == due and number not in (expected, line.seq):
            faults = [(line.seq, f"was written as entry {number}: its number was changed")]
        broken = number == due and tip is not None and line.previous != tip
        if broken and (before < 1 or after is None or after.previous != line.hash):
            self._pass(line)
            return Step([*faults, (line.seq, INSERTED)], believed=False, follows=False)
        if broken:
            faults = [(before, REPLACED), *faults]
        self.seq, self.number, self.tip = line.seq, number, line.hash
        self.shift = number - line.seq
        follows = number == due and tip is not None and not broken
        return Step(faults, follows=follows)

    def _edited(self, line: Line, after: Line | None) -> Step:
        faults = self._missing(line, line.seq + self.shift)
        # Its own hash may still be what the next one names.
        named = after is not None and after.previous == line.hash
        strange = self.tip is not None and not faults and line.previous != self.tip and not named
        self._pass(line)
        what = INSERTED if strange else EDITED
        return Step([*faults, (line.seq, what)], believed=False, follows=False)

    def _out_of_line(self, line: Line, number: int | None) -> Step:
        what = INSERTED
        if number is not None and number != line.seq:
            self.early.add(number)
            what = f"was written as entry {number}: entries changed places"
        return Step([(line.seq, what)], believed=False, follows=False)

    def _pass(self, line: Line) -> None:
        """Takes the row's place as filled, by whatever stands there."""
        self.seq, self.number, self.tip = line.seq, line.seq + self.shift, None

    def _missing(self, line: Line, number: int) -> list[Fault]:
        first, last = self.number + 1, number - 1
        if last < first or self.early.issuperset(range(first, number)):
            return []
        which = f"entry {first} is" if first == last else f"entries {first} to {last} are"
        return [(line.seq, f"{which} missing before it")]

    def _passed_over(self, after: Line | None) -> bool:
        """Whether the next row was written to stand here, after the one before."""
        return (
            after is not None
            and self.tip is not None
            and after.previous == self.tip
            and line_hash(after, self.number + 1) == after.hash
        )

    def _written_as(self, line: Line) -> int | None:
        """The number under which the row's hash holds; None where it holds under none near."""
        size = len(line.body) + len(line.sums) + len(line.event or "")
        near = min(NEAR, LOOKED_THROUGH // (size + 1))
        nearest = sorted(
            range(max(1, line.seq - near), max(1, line.seq) + near + 1),
            key=lambda number: abs(number - line.seq - self.shift),
        )
        return next((one for one in nearest if line_hash(line, one) == line.hash), None)
