"""What is asked for of the rows: the kinds of statistic."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from release.specs.conditions import Condition
from release.specs.values import (
    By,
    Column,
    Discover,
    Groups,
    Key,
    Number,
    Origin,
    Spec,
    as_tuple,
    texts_of,
)

NARROWEST_BOUNDS = Fraction(1, 2**40)


@dataclass(frozen=True)
class Scale:
    """A value clamped to [lower, upper], mapped into [-1, 1] by (x - centre) / half."""

    lower: float
    upper: float
    centre: float
    half: float

    @classmethod
    def around_middle(cls, lower: float, upper: float) -> Scale:
        """For means: the bounds become -1 and 1."""
        half = (upper - lower) / 2
        # By a way that cannot overflow.
        return cls(lower, upper, lower + half, half)

    @classmethod
    def around_zero(cls, lower: float, upper: float) -> Scale:
        """For sums: the bound that is further from 0 becomes -1 or 1."""
        return cls(lower, upper, 0.0, max(abs(lower), abs(upper)))


def _bounds(bounds: tuple[Decimal, Decimal]) -> tuple[Decimal, Decimal]:
    lower, upper = (float(bound) for bound in bounds)
    if not lower < upper:
        raise ValueError("the lower bound is not below the upper one")
    width = Fraction(upper) - Fraction(lower)
    if width < NARROWEST_BOUNDS * Fraction(max(abs(lower), abs(upper))):
        raise ValueError("the bounds are too close together for double precision")
    return bounds


Bounds = Annotated[
    tuple[Number, Number],
    BeforeValidator(as_tuple),
    AfterValidator(_bounds),
    Field(description="two numbers, lower below upper, known without the data"),
]


class _Grouped(Spec):
    by: By
    groups: Groups
    groups_file: str | None = None
    where: Annotated[
        tuple[Condition, ...],
        BeforeValidator(as_tuple),
        Field(
            description='a list of tables such as { column = "age", operator = ">=", value = 18 }'
        ),
    ] = ()
    origin: Origin = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the groups are named in."""
        return texts_of(self.by)

    @property
    def discovers(self) -> Discover | None:
        """How groups are found in the rows; None where they are listed."""
        return self.groups if isinstance(self.groups, str) else None

    @property
    def listed(self) -> tuple[Key, ...]:
        """The public list of groups; empty where groups are discovered."""
        return () if isinstance(self.groups, str) else self.groups

    @field_validator("groups")
    @classmethod
    def _one_name_a_column(
        cls, groups: tuple[Key, ...] | Discover, info: ValidationInfo
    ) -> tuple[Key, ...] | Discover:
        by = info.data.get("by")
        listed = () if isinstance(groups, str) else groups
        if by is None or all(len(texts_of(key)) == len(texts_of(by)) for key in listed):
            return groups
        raise ValueError("holds a group that has not one name for each column of `by`")


class Count(_Grouped):
    """How many rows, or how many units, each group has."""

    kind: Literal["count"] = "count"
    of: Annotated[Literal["rows", "units"], Field(description='"rows" or "units"')] = "rows"


class Sum(_Grouped):
    """The sum of a column in each group, its values clamped to ``bounds``."""

    kind: Literal["sum"] = "sum"
    value: Column
    bounds: Bounds


Share = Annotated[Number, Field(gt=0, lt=1, description="a number above 0 and below 1")]


class Mean(_Grouped):
    """The mean of a column in each group, its values clamped to ``bounds``."""

    kind: Literal["mean"] = "mean"
    value: Column
    bounds: Bounds
    count_share: Annotated[
        Share | None, Field(description="the count's part of ρ, above 0 and below 1")
    ] = None
    prior_mean: Annotated[
        Number | None,
        Field(description="about where means lie, within the bounds, known without the data"),
    ] = None

    @field_validator("prior_mean")
    @classmethod
    def _is_a_mean(cls, prior: Decimal | None, info: ValidationInfo) -> Decimal | None:
        if prior is None:
            return prior
        if info.data.get("count_share") is not None:
            raise ValueError("`count_share` already says how to split ρ: give one of them")
        bounds = info.data.get("bounds")
        if bounds is not None and not bounds[0] <= prior <= bounds[1]:
            raise ValueError("outside of the bounds")
        return prior


class Leaderboard(_Grouped):
    """The groups in the order of their noisy counts or means; the page shows the first ``top``."""

    kind: Literal["leaderboard"] = "leaderboard"
    top: Annotated[int, Field(ge=1, description="a whole number, at least 1")]
    of: Annotated[Literal["count", "mean"], Field(description='"count" or "mean"')] = "count"
    value: Column | None = None
    bounds: Bounds | None = None

    @model_validator(mode="after")
    def _measures(self) -> Leaderboard:
        given = (self.value is not None, self.bounds is not None)
        if given != ((self.of == "mean"),) * 2:
            raise ValueError('`value` and `bounds` are needed for of = "mean", and only there')
        # Which groups are shown depends on the noise of their counts, and how many others there
        # are is private: intervals of means hold one by one, and not all of them at once.
        if self.of == "mean" and self.discovers:
            raise ValueError("ranks by means need a public list of `groups`")
        return self


Statistic = Annotated[
    Count | Sum | Mean | Leaderboard,
    Field(
        discriminator="kind",
        description='a table with kind = "count", "sum", "mean" or "leaderboard"',
    ),
]
