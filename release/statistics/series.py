"""Several releases of one statistic together: sums over windows, and differences between two.

Everything here is made of noisy totals that are public, so it is free. The noises of different
releases are independent, so the variance of a sum of them is the sum of their variances.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from release.specs import Key
from release.statistics.tables import Noisy

Totals = Mapping[str, Mapping[Key, int]]


@dataclass(frozen=True)
class Series:
    """The noisy totals of some releases added up, of the groups that each of them has."""

    groups: tuple[Key, ...]
    of: Totals
    squares: Mapping[str, int]
    """The variance of the noise on each total, before it was rounded."""
    releases: int = 1

    @classmethod
    def start(cls, noisy: Noisy) -> Series:
        """One release alone."""
        of = {name: dict(zip(noisy.groups, each, strict=True)) for name, each in noisy.of.items()}
        return cls(tuple(noisy.groups), of, {name: s * s for name, s in noisy.sigma.items()})

    def plus(self, other: Series, sign: int = 1) -> Series:
        """Both together, or with a ``sign`` of -1 what is left when the other is taken away."""
        known = set(other.groups)
        groups = tuple(group for group in self.groups if group in known)
        of = {
            name: {group: each[group] + sign * other.of[name][group] for group in groups}
            for name, each in self.of.items()
        }
        squares = {name: square + other.squares[name] for name, square in self.squares.items()}
        return Series(groups, of, squares, self.releases + other.releases)

    def noisy(self) -> Noisy:
        """As one release, whose σ makes up for all roundings but one.

        Each of k noises was rounded, which moves their sum by k/2 steps at most, and what is made
        of one release allows for a half. The rest, (k - 1)/2, is less than what σ·2(k - 1)/min σ
        more in σ adds to an interval: z is at least 0.67, and a ratio's interval reaches
        z·√(σ_s² + t²·σ_c²), at least z·min σ·(1 + abs(t))/√2, where its half steps are
        (1 + abs(t))/2.
        """
        roots = {name: math.isqrt(square - 1) + 1 for name, square in self.squares.items()}
        more, least = 2 * (self.releases - 1), min(roots.values())
        return Noisy(
            groups=self.groups,
            of={
                name: tuple(each[group] for group in self.groups) for name, each in self.of.items()
            },
            sigma={name: root + -(-more * root // least) for name, root in roots.items()},
        )


def difference(before: Noisy, now: Noisy) -> Noisy:
    """What was added from one release to the other, in the groups that both have."""
    return Series.start(now).plus(Series.start(before), -1).noisy()
