"""A job: a statistic, how much a unit may add to it, and what it may cost."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from release.specs.statistics import Statistic
from release.specs.values import LEVEL, MAX_GROUPS, Level, Line, Number, Origin, Spec
from release.windows import EARLIEST, KINDS, LATEST, Kind, beginning

MAX_ROWS_PER_GROUP = 2**20
# A thousand of the units in which cost is counted: rounding to units is then below 0.1 %.
LEAST_RHO = Decimal("1e-9")
SEEN_FOR_ONE = 16
"""How many groups of a unit are looked at for each that counts in full, if nothing is said."""


class Contribution(Spec):
    """How much one privacy unit may add to one release."""

    max_groups: Annotated[
        int, Field(ge=1, le=MAX_GROUPS, description=f"a whole number from 1 to {MAX_GROUPS}")
    ]
    max_rows_per_group: Annotated[
        int,
        Field(
            ge=1,
            le=MAX_ROWS_PER_GROUP,
            description=f"a whole number from 1 to {MAX_ROWS_PER_GROUP}",
        ),
    ]
    bounding: Annotated[
        Literal["clip", "sample"],
        Field(
            description='"clip" (shrink all that a unit did) or "sample" (keep max_groups groups)'
        ),
    ] = "clip"
    max_norm: Annotated[
        Number | None,
        Field(
            ge=1,
            description="a number from 1 to below max_rows_per_group times the square root of "
            'max_groups, with bounding = "clip"',
        ),
    ] = None
    max_groups_seen: Annotated[
        int | None,
        Field(
            ge=1,
            le=MAX_GROUPS,
            description=f"a whole number from max_groups to {MAX_GROUPS}, where groups are "
            'discovered with bounding = "clip"',
        ),
    ] = None
    origin: Origin = None

    @property
    def norm_squared(self) -> Fraction:
        """The square of the most that one unit's weights over all groups may have as a norm."""
        if self.max_norm is not None:
            return Fraction(self.max_norm) ** 2
        return Fraction(self.max_rows_per_group**2 * self.max_groups)

    @property
    def groups_seen(self) -> int:
        """T: of how many groups of a unit anything is looked at, where groups are discovered."""
        if self.bounding == "sample":
            return self.max_groups
        return self.max_groups_seen or min(SEEN_FOR_ONE * self.max_groups, MAX_GROUPS)

    @field_validator("max_groups_seen")
    @classmethod
    def _sees_what_counts(cls, seen: int | None, info: ValidationInfo) -> int | None:
        most = info.data
        if seen is None or not most.keys() >= {"max_groups", "bounding"}:
            return seen
        if most["bounding"] != "clip":
            raise ValueError('goes with bounding = "clip" alone: "sample" looks at max_groups')
        if seen < most["max_groups"]:
            raise ValueError("less than max_groups")
        return seen

    @field_validator("max_norm")
    @classmethod
    def _is_the_tightest_bound(cls, norm: Decimal | None, info: ValidationInfo) -> Decimal | None:
        most = info.data
        if norm is None or not most.keys() >= {"max_groups", "max_rows_per_group", "bounding"}:
            return norm
        if most["bounding"] != "clip":
            raise ValueError('goes with bounding = "clip" alone')
        if Fraction(norm) ** 2 >= most["max_rows_per_group"] ** 2 * most["max_groups"]:
            raise ValueError("would change nothing: the other bounds are tighter")
        return norm


class Noise(Spec):
    """What one release may cost: an equal part of the job's share, or a ρ of its own."""

    releases: Annotated[
        int | None, Field(ge=1, le=10**9, description="a whole number of releases, at least 1")
    ] = None
    rho: Annotated[
        Number | None, Field(ge=LEAST_RHO, description=f"a number, at least {LEAST_RHO}")
    ] = None
    share: Annotated[Number, Field(gt=0, le=1, description="a number above 0 and at most 1")] = (
        Decimal(1)
    )
    delta0: Annotated[
        Number | None,
        Field(gt=0, lt=1, description="a number above 0 and below 1, where groups are discovered"),
    ] = None
    """Of δ, what one release spends on its threshold; else an equal part of the job's share."""

    @model_validator(mode="after")
    def _one_of(self) -> Noise:
        if (self.releases is None) == (self.rho is None):
            raise ValueError("needs exactly one of `releases` and `rho`")
        return self


class Publish(Spec):
    """What is made of the noisy numbers, at no cost, before they are shown."""

    nonnegative: Annotated[bool, Field(description="true or false")] = True
    """Counts, and sums of values that are never negative, are not shown below 0."""
    within_bounds: Annotated[bool, Field(description="true or false")] = True
    """Means are not shown outside of the bounds."""
    rounded: Annotated[bool, Field(description="true or false")] = True
    """No digit is shown below a tenth of the noise's standard deviation."""
    change: Annotated[bool, Field(description="true or false")] = True
    """The change since the window before stands beside each number."""
    running: Annotated[bool, Field(description="true or false")] = True
    """So does the sum, or the mean, over all windows that were released up to this one."""


class Job(Spec):
    """A statistic to be released once for every window of a dataset."""

    name: str
    title: Annotated[Line, Field(description="one line that names the statistic for readers")]
    dataset: Annotated[str, Field(description="the name of a [dataset.…] of the project file")]
    schedule: Annotated[
        Literal["daily", "weekly", "monthly", "quarterly", "yearly"],
        Field(description='"daily", "weekly", "monthly", "quarterly" or "yearly"'),
    ]
    window: Annotated[Kind, Field(description=" or ".join(f'"{kind}"' for kind in KINDS))]
    start: Annotated[
        date,
        Field(
            ge=EARLIEST,
            le=LATEST,
            description=f"the first date of the first window, from {EARLIEST} to {LATEST}",
        ),
    ]
    statistic: Statistic
    contribution: Annotated[
        Contribution,
        Field(description="a table such as { max_groups = 3, max_rows_per_group = 1 }"),
    ]
    noise: Annotated[Noise, Field(description="a table such as { releases = 10, share = 0.5 }")]
    publish: Annotated[Publish, Field(description="a table such as { nonnegative = false }")] = (
        Publish()
    )
    level: Level = LEVEL
    """Of all intervals; the project's, where the job does not say another."""

    @field_validator("contribution")
    @classmethod
    def _counts_units_once(cls, most: Contribution, info: ValidationInfo) -> Contribution:
        of = getattr(info.data.get("statistic"), "of", None)
        if of == "units" and most.max_rows_per_group != 1:
            raise ValueError("a count of units needs max_rows_per_group = 1")
        return most

    @field_validator("contribution")
    @classmethod
    def _sees_groups_where_they_are_discovered(
        cls, most: Contribution, info: ValidationInfo
    ) -> Contribution:
        statistic = info.data.get("statistic")
        if statistic and not statistic.discovers and most.max_groups_seen is not None:
            raise ValueError("max_groups_seen is for discovered groups, and these are listed")
        return most

    @field_validator("noise")
    @classmethod
    def _pays_for_a_threshold(cls, noise: Noise, info: ValidationInfo) -> Noise:
        statistic = info.data.get("statistic")
        if statistic is None:
            return noise
        if noise.delta0 is not None and not statistic.discovers:
            raise ValueError("delta0 is for discovered groups, and these are listed")
        if statistic.discovers and noise.delta0 is None and noise.releases is None:
            raise ValueError("discovered groups need `delta0` beside `rho`")
        return noise

    @field_validator("start")
    @classmethod
    def _starts_on_a_window(cls, start: date, info: ValidationInfo) -> date:
        kind = info.data.get("window")  # absent where it is a fault of its own
        if kind and (first := beginning(kind, start)) != start:
            raise ValueError(f"is inside the {kind} that begins on {first}")
        return start
