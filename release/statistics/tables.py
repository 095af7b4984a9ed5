"""What is published: a table of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict

from release.specs import Key

RowStatus = Literal["published", "not-reliable"]
Sigma = Mapping[str, int]


@dataclass(frozen=True)
class Noisy:
    """What a table is made of: noisy totals of some groups, and the σ of each, in steps.

    ``appeared`` are the groups that are shown for the height of their noisy count: none where all
    were public before.
    """

    groups: Sequence[Key]
    of: Mapping[str, Sequence[int]]
    sigma: Sigma
    appeared: frozenset[Key] = frozenset()

    @property
    def count(self) -> Sequence[int]:
        """The noisy counts."""
        return self.of["count"]

    @property
    def sum(self) -> Sequence[int]:
        """The noisy sums."""
        return self.of["sum"]


class Row(BaseModel):
    """One published row; ``value`` is None exactly where ``status`` is not "published".

    ``lower`` and ``upper`` bound the exact bounded statistic at the release's level, noise only;
    a published value lies between them, and they are never equal. ``count`` is the noisy bounded
    count beside a mean, or beside a sum whose group was discovered by it. The ranks belong to
    leaderboards.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    group: Key
    value: float | None
    lower: float
    upper: float
    status: RowStatus
    count: float | None = None
    rank: int | None = None
    rank_lower: int | None = None
    rank_upper: int | None = None


class Table(BaseModel):
    """A published table, its numbers rounded once, to ``decimals`` places, for every format.

    A negative number of places rounds to tens, hundreds and so on.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    decimals: int
    count_decimals: int
    rows: tuple[Row, ...]
