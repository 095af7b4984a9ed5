"""From what the ledger holds to what a template shows of it: windows, statistics, accounts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from release.ledger.records import About, Account, Entry, Release, Terms
from release.site import figures, tables
from release.site.addresses import Published, account_folder, entry_link, link
from release.site.contexts import (
    AccountView,
    ConditionView,
    DiscoveredView,
    OverdraftView,
    StatisticView,
    ThresholdView,
    WindowView,
)
from release.specs import Condition, Count, Leaderboard, Mean, Scalar
from release.statistics import STATISTICS
from release.windows import Window


def instant(moment: datetime) -> str:
    """RFC 3339, in UTC, to the second: windows have no more, and readers need no more."""
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def day(moment: datetime) -> str:
    """The date of a moment in UTC, for what readers need to know no closer."""
    return instant(moment)[:10]


def window(of: Window) -> WindowView:
    """The window with the dates that lie in it."""
    return WindowView(
        name=of.name,
        label=of.label,
        kind=of.kind,
        first=of.first.isoformat(),
        last=(of.after - timedelta(days=1)).isoformat(),
        start=instant(of.start),
        end=instant(of.end),
        zone=of.zone,
    )


def statistic(release: Release) -> StatisticView:
    """What was computed, and from where its public parameters are known."""
    spec, publish = release.job.statistic, release.job.publish
    of, mean = tables.measure(spec), spec if isinstance(spec, Mean) else None
    bounds = None if isinstance(spec, Count) else spec.bounds
    lower, upper = (None, None) if bounds is None else map(figures.plain, bounds)
    split = STATISTICS[spec.kind].split(spec)
    return StatisticView(
        of=of,
        ranked=isinstance(spec, Leaderboard),
        by=spec.columns,
        value=None if isinstance(spec, Count) else spec.value,
        lower=lower,
        upper=upper,
        scale=None if bounds is None else figures.plain(_scale(of, *bounds)),
        where=tuple(map(_condition, spec.where)),
        count_percent=figures.significant(100 * split["count"], 3) if len(split) > 1 else None,
        count_share=_stated(mean.count_share if mean else None),
        prior_mean=_stated(mean.prior_mean if mean else None),
        nonnegative=publish.nonnegative if of != "sum" or (bounds and bounds[0] >= 0) else None,
        within_bounds=publish.within_bounds if of == "mean" else None,
        rounded=publish.rounded,
        change=publish.change,
        running=publish.running,
        counted=len(split) > 1,
        discovered=_discovered(release),
        groups=len(release.groups),
        groups_file=spec.groups_file,
        groups_origin=spec.origin,
    )


def _discovered(release: Release) -> DiscoveredView | None:
    found = release.mechanism.threshold
    if found is None:
        return None
    half, most = (found.size(release.mechanism.sigma["count"], p) for p in (0.5, 0.99))
    return DiscoveredView(
        tau=figures.significant(Fraction(found.tau, 2**release.mechanism.lattice_bits)),
        delta0=figures.plain(Decimal(repr(found.delta0))),
        half=f"{half:,}",
        most=f"{most:,}",
        seen=release.job.contribution.groups_seen,
        lasting=release.job.statistic.discovers == "discover-new",
    )


def _scale(of: str, lower: Decimal, upper: Decimal) -> Decimal:
    return (upper - lower) / 2 if of == "mean" else max(abs(lower), abs(upper))


def _stated(number: Decimal | None) -> str | None:
    return None if number is None else figures.plain(number)


def _condition(of: Condition) -> ConditionView:
    return ConditionView(of.column, of.operator, tuple(map(_scalar, of.values)))


def _scalar(value: Scalar) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else figures.plain(Decimal(value))


def epsilon(account: Account, units: int) -> str:
    """ε of a spend by the account's own accountant, rounded up."""
    return figures.round_up(account.terms.budget.spent_epsilon(units))


def account(of: Account, root: str, *, after: Published | None = None) -> AccountView:
    """The account as it stands, or as it stood and was described right after a release."""
    terms, about = of.terms, of.about if after is None else after.about
    entries = [e for e in of.entries if after is None or e.seq <= after.entry.seq]
    spent = entries[-1].spent.units
    left = max(0, terms.cap - spent)
    kinds = Counter(entry.kind for entry in entries)
    return AccountView(
        name=terms.account,
        href=root + link(account_folder(terms.account)),
        unit=terms.unit,
        unit_name=about.unit_name,
        population=about.population,
        expected=_expected(terms, about),
        accountant=terms.accountant,
        quantity=quantity(terms),
        order=None if terms.order is None else f"{float(Fraction(terms.order)):g}",
        epsilon=figures.plain(terms.epsilon),
        delta=figures.plain(terms.delta),
        reported_delta=figures.plain(terms.delta * (1 - terms.threshold_share)),
        thresholds=_thresholds(terms, entries[-1]),
        cap=figures.rho(terms.cap),
        spent=figures.rho(spent),
        spent_epsilon=epsilon(of, spent),
        spent_percent=figures.percent_up(spent, terms.cap),
        meter=figures.percent_up(min(spent, terms.cap), terms.cap),
        left=figures.rho(left),
        left_percent=figures.percent_down(left, terms.cap),
        releases=kinds["release"],
        records=kinds["record"] + kinds["history"],
        amendments=kinds["amend"],
        refusals=kinds["refusal"],
        stops=stops(entries),
        head_entry=entries[-1].seq,
        head=entries[-1].hash,
        updated=instant(entries[-1].charged_at),
        overdrawn=overdraft(of, root) if after is None else None,
    )


def overdraft(of: Account, root: str) -> OverdraftView | None:
    """How much more was spent than the budget allows, if a correction has shown that."""
    shown_by = of.overdrawn_by
    if shown_by is None:
        return None
    spent = epsilon(of, of.last.spent.units)
    return OverdraftView(
        day=day(shown_by.charged_at),
        entry=shown_by.seq,
        href=root + entry_link(shown_by),
        epsilon=spent,
        delta=figures.plain(spent_delta(of)),
        factor=figures.factor(Decimal(spent)),
    )


def spent_delta(of: Account) -> Decimal:
    """The δ at which what was spent holds: the account's, or more where δ₀ went past δ_T."""
    spent = of.last.spent.delta0
    if spent <= of.terms.delta_cap:
        return of.terms.delta
    aside = of.terms.delta * of.terms.threshold_share
    return min(Decimal(1), of.terms.delta - aside + figures.delta(spent))


def quantity(terms: Terms) -> str:
    """What the account adds up and caps: ρ, or ε at its order α*."""
    return "ρ" if terms.order is None else "ε(α*)"


def stopped_by(entry: Entry) -> str | None:
    """Whether the job's ``share`` or the ``account`` refused; None for what was not refused."""
    return entry.body.get("stopped_by") if entry.kind == "refusal" else None


def stops(entries: Iterable[Entry]) -> tuple[str, ...]:
    """What stopped any of them: "account", "share" or both, in this order."""
    return tuple(sorted({stop for entry in entries if (stop := stopped_by(entry))}))


def _thresholds(terms: Terms, last: Entry) -> ThresholdView | None:
    if not terms.threshold_share:
        return None
    return ThresholdView(figures.delta0(terms.delta_cap), figures.delta0(last.spent.delta0))


def _expected(terms: Terms, about: About) -> str | None:
    if about.population is None:
        return None
    return figures.significant(Fraction(terms.delta) * about.population, 3)
