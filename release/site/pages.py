"""Every page of the site: which template, at which path, with which context."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from release import __version__
from release.ledger.records import Account
from release.site import afterwards, charts, views
from release.site.addresses import (
    PAGE,
    Outcome,
    Published,
    account_folder,
    job_folder,
    link,
    outcomes,
    root,
)
from release.site.contexts import (
    AccountPage,
    AnyPage,
    Frame,
    IndexPage,
    JobPage,
    JobView,
    Line,
    ReleasePage,
)
from release.site.entries import entries
from release.site.guarantee import guarantee
from release.site.past import Past, pasts
from release.site.past import view as past_view
from release.site.spending import Spending
from release.site.successions import Successions

UNTITLED = "dp-release"


@dataclass(frozen=True)
class Page:
    """One page before it is rendered."""

    path: str
    template: str
    context: AnyPage


@dataclass(frozen=True)
class Site:
    """What all pages are made of: the accounts by name, their releases, and the style."""

    accounts: tuple[Account, ...]
    releases: tuple[Published, ...]
    spendings: dict[str, Spending]
    style: str
    policy: str

    def pages(self) -> Iterator[Page]:
        """All pages, those of single releases first and the index last."""
        for job in self.jobs():
            yield from self._release_pages(job)
            yield Page(f"{job_folder(job)}/{PAGE}", "job.html", self._job_page(job))
        for account in self.accounts:
            folder = account_folder(account.terms.account)
            yield Page(f"{folder}/{PAGE}", "account.html", self._account_page(account))
        yield Page(PAGE, "index.html", self._index())

    @cached_property
    def outcomes(self) -> tuple[Outcome, ...]:
        """Every window that was released or refused, the newest first."""
        return outcomes(self.accounts, self.releases)

    @cached_property
    def remarks(self) -> afterwards.Remarks:
        """What the records say of jobs and to readers."""
        return afterwards.Remarks(self.accounts)

    @cached_property
    def successions(self) -> Successions:
        """Which account contains which."""
        return Successions(self.accounts)

    def jobs(self) -> tuple[str, ...]:
        """The names of all jobs that the record names, in order."""
        named = {entry.job for account in self.accounts for entry in account.entries}
        return tuple(sorted(name for name in named if name is not None))

    def _index(self) -> IndexPage:
        return IndexPage(
            frame=self._frame(""),
            jobs=tuple(self._job(name, "") for name in self.jobs()),
            accounts=tuple(self.successions.account(account, "") for account in self.accounts),
            notices=self.remarks.notices(""),
        )

    def _job_page(self, name: str) -> JobPage:
        up = root(job_folder(name))
        job = self._job(name, up)
        return JobPage(
            frame=self._frame(up),
            job=job,
            accounts=tuple(
                self.successions.account(account, up)
                for account in self.accounts
                if account.terms.account in job.accounts
            ),
            chart=self._series(name),
        )

    def _release_pages(self, job: str) -> Iterator[Page]:
        siblings = self._of_job(job)
        for index, each in enumerate(siblings):
            earlier = siblings[index - 1] if index else None
            later = siblings[index + 1] if index + 1 < len(siblings) else None
            page = self._release_page(each, earlier, later)
            yield Page(f"{each.folder}/{PAGE}", "release.html", page)

    def _of_job(self, job: str) -> list[Published]:
        """Its releases in the order of their windows."""
        return sorted(
            (each for each in self.releases if each.job == job),
            key=lambda each: (each.window.start, each.folder),
        )

    @cached_property
    def pasts(self) -> dict[str, Past]:
        """Of each release the earlier ones that it stands beside, by its folder."""
        return {
            folder: past
            for job in self.jobs()
            for folder, past in pasts(self._of_job(job)).items()
        }

    def _release_page(
        self, each: Published, earlier: Published | None, later: Published | None
    ) -> ReleasePage:
        up = root(each.folder)
        release = each.release
        statistic = views.statistic(release)
        return ReleasePage(
            frame=self._frame(up),
            name=each.job,
            title=release.job.title,
            job_href=up + link(job_folder(each.job)),
            account_href=up + link(account_folder(each.account.terms.account)),
            window=views.window(each.window),
            earlier=_released(earlier, up) if earlier else None,
            later=_released(later, up) if later else None,
            headline=each.headline,
            statistic=statistic,
            rows=each.shown,
            total=len(each.rows),
            past=past_view(self.pasts[each.folder]),
            chart=charts.intervals(each.estimates, bars=statistic.of != "mean"),
            guarantee=guarantee(each, self.remarks, up),
            corrected=afterwards.corrected(each, up),
            understated=afterwards.understated(each, up),
            overdrawn=self.successions.overdraft(each.account, up),
            notices=self.remarks.notices(up, job=each.job),
        )

    def _account_page(self, account: Account) -> AccountPage:
        up = root(account_folder(account.terms.account))
        spending = self.spendings[account.terms.account]
        links = {e.entry.seq: up + link(e.folder) for e in self.releases if e.account is account}
        charged = [e for e in account.entries if e.event is not None or e.kind == "refusal"]
        refused = sorted({e.job for e in charged if e.kind == "refusal" and e.job})
        return AccountPage(
            frame=self._frame(up),
            account=self.successions.account(account, up),
            neighbouring=account.terms.neighbouring,
            time_zone=account.terms.time_zone,
            opened_at=views.instant(account.opened_at),
            approved_by=account.about.approved_by,
            reason=account.about.reason,
            refused_jobs=tuple(refused),
            halts=self.remarks.halts(up, account=account.terms.account),
            notices=self.remarks.notices(up, account=account.terms.account),
            entries=tuple(entries(account, links, up)),
            conversions=tuple(
                sorted(spending.conversions, key=lambda e: e.name != account.terms.accountant)
            ),
            comparison=spending.comparison,
            statement=spending.statement,
            warning=spending.warning,
            curve=spending.points,
            chart=charts.budget(
                [entry.spent.units for entry in charged],
                [index for index, entry in enumerate(charged) if entry.kind == "refusal"],
                account.terms.cap,
                f"{charged[0].seq}" if charged else "",
                f"{charged[-1].seq}" if charged else "",
            ),
        )

    def _job(self, name: str, up: str) -> JobView:
        found = [each for each in self.outcomes if each.job == name]
        lines = tuple(_line(each, up) for each in found)
        titles = [each.release.job.title for each in self.releases if each.job == name]
        refused = [each.entry for each in found if each.published is None]
        titles = titles or [each.body["title"] for each in refused[:1] if "title" in each.body]
        return JobView(
            name=name,
            title=titles[-1] if titles else name,
            href=up + link(job_folder(name)),
            accounts=tuple(
                account.terms.account
                for account in self.accounts
                if any(entry.job == name for entry in account.entries)
            ),
            latest=next((line for line in lines if line.headline), None),
            lines=lines,
            refusals=len(refused),
            stops=views.stops(refused),
            corrections=sum(line.corrected for line in lines),
            halts=self.remarks.halts(up, job=name),
            notices=self.remarks.notices(up, job=name),
        )

    def _series(self, job: str) -> charts.SeriesChart | None:
        """Weeks side by side, for statistics whose rows keep their places."""
        found = [each for each in reversed(self.outcomes) if each.job == job]
        published = [each.published for each in found if each.published]
        kinds = {(each.headline.of, each.headline.ranked) for each in published}
        if len(published) < 2 or len(kinds) > 1 or published[0].headline.ranked:
            return None
        columns = [each.published.estimates if each.published else None for each in found]
        return charts.series(columns, found[0].window.label, found[-1].window.label)

    def _frame(self, up: str) -> Frame:
        about = self.accounts[0].about if self.accounts else None
        return Frame(
            title=about.title if about else UNTITLED,
            root=up,
            style=self.style,
            policy=self.policy,
            contact=about.contact if about else None,
            licence=about.licence if about else None,
            software=f"dp-release {__version__}",
        )


def _line(each: Outcome, up: str) -> Line:
    if each.published is not None:
        return _released(each.published, up)
    stop = views.stopped_by(each.entry)
    return Line(views.window(each.window), each.entry.seq, None, None, stopped_by=stop)


def _released(each: Published, up: str) -> Line:
    return Line(
        window=views.window(each.window),
        entry=each.entry.seq,
        href=up + link(each.folder),
        headline=each.headline,
        corrected=bool(each.corrections),
    )
