"""How far a budget reaches: pure arithmetic on caps and charges, before any data is read."""

from __future__ import annotations

from collections.abc import Iterator

from release.accounting.conversions import epsilons, textbook_cap, zcdp_cap
from release.accounting.exact import AccountingError, Exact, checked_count, exact
from release.accounting.gaussian import gdp_cap


def admissible_releases(cap: int, charge: int) -> int:
    """How many equal charges fit within a cap."""
    if charge <= 0:
        raise AccountingError("a charge must be above 0")
    return max(0, cap) // charge


def share_cap(cap: int, share: Exact) -> int:
    """⌊share·cap⌋: the part of a cap that one job may spend."""
    part = exact(share, "share")
    if not 0 < part <= 1:
        raise AccountingError("share must be above 0 and at most 1")
    return cap * part.numerator // part.denominator


def per_release_charge(cap: int, share: Exact, releases: int) -> int:
    """⌊⌊share·cap⌋/n⌋, and at least one unit, so that a budget of nothing refuses everything."""
    return max(1, share_cap(cap, share) // checked_count(releases, "releases"))


def fits_exactly(cap: int, share: Exact, releases: int) -> bool:
    """Whether ``per_release_charge`` lets exactly n releases through and refuses the next.

    Always where the share is at least n² units.
    """
    charge = per_release_charge(cap, share, releases)
    return admissible_releases(share_cap(cap, share), charge) == releases


def reach(charge: int, epsilon: Exact, delta: Exact, share: Exact = 1) -> dict[str, int]:
    """How many Gaussian releases of one ρ fit a share of (ε, δ), by each formula side by side."""
    caps = rho_caps(epsilon, delta)
    return {name: admissible_releases(share_cap(cap, share), charge) for name, cap in caps.items()}


def rho_caps(epsilon: Exact, delta: Exact) -> dict[str, int]:
    """The ρ that (ε, δ) is worth by each formula, in whole units; ``zcdp`` is the textbook's."""
    return {
        "gdp": gdp_cap(epsilon, delta),
        "rdp": zcdp_cap(epsilon, delta),
        "zcdp": textbook_cap(epsilon, delta),
    }


def epsilons_after(
    charge: int, delta: Exact, releases: int, spent: int = 0
) -> Iterator[dict[str, float | None]]:
    """ε by every formula after each of n Gaussian releases of one ρ, on top of what was spent."""
    for done in range(1, checked_count(releases, "releases") + 1):
        yield epsilons(spent + done * charge, delta)
