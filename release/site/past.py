"""What a release says beside earlier ones of its job: the change, and the sum or mean so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from release.ledger.records import Release, Row, Table
from release.site import figures, tables, views
from release.site.addresses import Published
from release.site.contexts import BesideView, PastView, SpanView
from release.specs import Key
from release.statistics import STATISTICS, Noisy, Series
from release.windows import Window, following

ABSENT = SpanView(None, None, None, "not-available")
"""Of a group that one of the releases is without."""


@dataclass(frozen=True)
class Past:
    """One release, and the unbroken line of earlier ones that ask for the same.

    ``windows`` of ``possible`` were released from ``first`` up to this one. ``before`` is the
    release of the window right before it, if that was released and asked for the same, and
    ``broken`` the last one that did not, or was of another calendar, if the line begins after it.
    """

    of: Published
    line: Series
    first: Window
    windows: int = 1
    possible: int = 1
    before: Published | None = None
    broken: Published | None = None

    @cached_property
    def change(self) -> Table | None:
        """Since the window before."""
        if self.before is None or not self.of.release.job.publish.change:
            return None
        job, level = self.of.release.job, self.of.release.mechanism.level
        return STATISTICS[job.statistic.kind].change(
            job.statistic, noisy(self.before.release), noisy(self.of.release), level, job.publish
        )

    @cached_property
    def running(self) -> Table | None:
        """Over all windows of the line."""
        job, level = self.of.release.job, self.of.release.mechanism.level
        if not job.publish.running:
            return None
        statistic = STATISTICS[job.statistic.kind]
        return statistic.table(job.statistic, self.line.noisy(), level, job.publish)

    @cached_property
    def spans(self) -> tuple[tuple[SpanView | None, SpanView | None], ...]:
        """For each row that ``of`` has its change, and what it comes to so far, if asked for."""
        publish = self.of.release.job.publish
        change, running = _by_group(self.change), _by_group(self.running)
        return tuple(
            (
                change.get(row.group, ABSENT) if publish.change else None,
                running.get(row.group, ABSENT) if publish.running else None,
            )
            for row in tables.ordered(self.of.release)
        )


def noisy(release: Release) -> Noisy:
    """The noisy totals of a release."""
    return Noisy(release.groups, release.noisy, release.mechanism.sigma)


def pasts(releases: Sequence[Published]) -> dict[str, Past]:
    """The past of each release of one job, by its folder; ``releases`` are in order of time."""
    found: dict[str, Past] = {}
    last: Past | None = None
    for each in releases:
        last = _next(last, each)
        found[each.folder] = last
    return found


def _next(last: Past | None, of: Published) -> Past:
    line = Series.start(noisy(of.release))
    if last is None:
        return Past(of, line, of.window)
    steps = _steps(last.of.window, of.window)
    if steps is None or _asked(last.of) != _asked(of):
        return Past(of, line, of.window, broken=last.of)
    return Past(
        of,
        line.plus(last.line),
        last.first,
        windows=last.windows + 1,
        possible=last.possible + steps,
        before=last.of if steps == 1 else None,
        broken=last.broken,
    )


def _steps(before: Window, now: Window) -> int | None:
    """How many windows later one is than the other; None where it is of another calendar."""
    if (before.kind, before.zone) != (now.kind, now.zone) or now.first <= before.first:
        return None
    for steps, window in enumerate(following(before.kind, before.first, before.zone)):
        if window.first >= now.first:
            return steps if window == now else None
    return None


def _asked(of: Published) -> Any:
    """What must be the same for two numbers to be of one thing."""
    job = of.release.job
    spec = job.statistic.model_dump(include={"kind", "of", "by", "value", "bounds", "where"})
    rows = of.account.terms.unit, of.about.time, of.release.mechanism.lattice_bits
    return spec, job.contribution.model_dump(exclude={"origin"}), rows


def _by_group(table: Table | None) -> Mapping[Key, SpanView]:
    if table is None:
        return {}
    return {row.group: _span(row, table.decimals) for row in table.rows}


def _span(row: Row, decimals: int) -> SpanView:
    value = None if row.value is None else figures.fixed(row.value, decimals)
    lower, upper = (figures.fixed(end, decimals) for end in (row.lower, row.upper))
    return SpanView(value, lower, upper, row.status)


def view(past: Past) -> PastView | None:
    """What the page says of it, for the rows that it shows; None where there is nothing to say."""
    publish = past.of.release.job.publish
    change, running = past.change is not None, past.running is not None and past.windows > 1
    broken = past.broken if (publish.change or publish.running) and past.windows == 1 else None
    if not (change or running or broken):
        return None
    spans = [
        BesideView(row.names, one if change else None, two if running else None)
        for row, (one, two) in zip(past.of.shown, past.spans, strict=False)
    ]
    return PastView(
        before=views.window(past.before.window) if change and past.before else None,
        first=views.window(past.first) if running else None,
        windows=past.windows,
        possible=past.possible,
        broken=None if broken is None else views.window(broken.window),
        rows=tuple(spans) if change or running else (),
        lacking=any(ABSENT in (each.change, each.running) for each in spans),
    )
