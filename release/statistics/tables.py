"""What is published: a table of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict

from release.specs import Key

RowStatus = Literal["published", "not-reliable"]
Noisy = Mapping[str, Sequence[int]]
Sigma = Mapping[str, int]


class Row(BaseModel):
    """One published row; ``value`` is None exactly where ``status`` is not "published".

    ``lower`` and ``upper`` bound the exact bounded statistic at the release's level, noise only;
    a published value lies between them, and they are never equal. ``count`` is the noisy bounded
    count beside a mean. The ranks belong to leaderboards.
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
