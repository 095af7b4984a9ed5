"""Where each release stands on the site: permanent addresses, given in the order of the record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from urllib.parse import quote

from release.errors import LedgerError
from release.ledger.charges import Standing, standing
from release.ledger.records import About, Account, Entry, Release
from release.site import tables
from release.site.charts import Estimate
from release.site.contexts import Conversion, Headline, RowView
from release.site.spending import conversions
from release.specs import Leaderboard
from release.windows import Window

PAGE = "index.html"


@dataclass(frozen=True)
class Published:
    """A release with the entry that charged it, what was said then, and its folder on the site.

    ``about`` is what the record said of the account when the release was charged, and
    ``amendments`` are the later corrections of its charge and of those before it.
    """

    account: Account
    about: About
    entry: Entry
    release: Release
    window: Window
    folder: str
    amendments: tuple[Entry, ...]

    @property
    def corrections(self) -> tuple[Entry, ...]:
        """The corrections of its own charge."""
        return tuple(each for each in self.amendments if each.amends == self.entry.seq)

    @cached_property
    def cost(self) -> Standing:
        """What it has cost so far, all corrections counted."""
        return standing(self.account.terms, (self.entry, *self.corrections))

    @property
    def job(self) -> str:
        """The job's name."""
        return self.release.job.name

    @cached_property
    def rows(self) -> tuple[RowView, ...]:
        """The whole table, as every page and file shows it."""
        return tables.rows(self.release)

    @cached_property
    def shown(self) -> tuple[RowView, ...]:
        """The rows that the page shows: a leaderboard's first, else all."""
        statistic = self.release.job.statistic
        return self.rows[: statistic.top if isinstance(statistic, Leaderboard) else None]

    @cached_property
    def headline(self) -> Headline:
        """The rows that its first sentence is about."""
        return tables.headline(self.release.job.statistic, self.about.unit_name, self.rows)

    @cached_property
    def conversions(self) -> tuple[Conversion, ...]:
        """ε of this release and of everything up to it, by every formula."""
        return conversions(self.account, self.entry)

    @cached_property
    def estimates(self) -> tuple[Estimate, ...]:
        """The rows that the page shows, as a chart draws them."""
        return tables.estimates(self.shown)


@dataclass(frozen=True)
class Outcome:
    """What became of a window: published, or refused where ``published`` is None."""

    account: Account
    entry: Entry
    window: Window
    job: str
    published: Published | None


def outcomes(accounts: Sequence[Account], releases: Sequence[Published]) -> tuple[Outcome, ...]:
    """Every window that was released or refused, the newest first."""
    found = {(each.entry.account, each.entry.seq): each for each in releases}
    every = (
        Outcome(account, entry, entry.window, entry.job, found.get((entry.account, entry.seq)))
        for account in accounts
        for entry in account.entries
        if entry.kind in ("release", "refusal") and entry.window and entry.job
    )
    return tuple(sorted(every, key=lambda each: each.window.start, reverse=True))


def published(accounts: Sequence[Account]) -> tuple[Published, ...]:
    """Every release, in the order in which they were charged.

    The folder is the job's name and the window's. Should a job have changed its kind of window
    or its time zone, a later window of the same name says its kind, then its account and entry,
    and the earlier one keeps its address.
    """
    charged = sorted(
        (
            (entry.charged_at, generation, entry.seq, account, about, later, entry)
            for generation, account in enumerate(_successive(accounts))
            for entry, about, later in _described(account)
            if entry.seq in account.releases
        ),
        key=lambda item: item[:3],
    )
    taken: dict[str, Published] = {}
    for *_, account, about, later, entry in charged:
        release = account.releases[entry.seq]
        window = entry.window
        if window is None:
            raise LedgerError(f"entry {entry.seq} of {account.terms.account} has no window")
        plain = f"{job_folder(release.job.name)}/{_part(window.name)}"
        kind = f"{plain}-{window.kind}"
        last = f"{kind}-{account.terms.account}-{entry.seq}"
        folder = next(each for each in (plain, kind, last) if each not in taken)
        taken[folder] = Published(account, about, entry, release, window, folder, later)
    return tuple(taken.values())


def _successive(accounts: Sequence[Account]) -> list[Account]:
    """The accounts by name, each after the one that it replaces.

    An account that replaces another opens at no earlier time than the other's last charge, after
    which that one releases nothing: so of releases of one time its own are the earlier ones.
    """
    replaces = {account.terms.account: account.terms.replaces for account in accounts}

    def line(account: Account) -> list[str]:
        names = [account.terms.account]
        while (before := replaces.get(names[0])) is not None and before not in names:
            names.insert(0, before)
        return names

    return sorted(accounts, key=line)


def _described(account: Account) -> Iterator[tuple[Entry, About, tuple[Entry, ...]]]:
    """Each entry with what the last ``project`` entry up to it says, and later corrections."""
    about = account.about
    amendments = [entry for entry in account.entries if entry.amends is not None]
    for entry in account.entries:
        if entry.kind == "project":
            about = About.model_validate(entry.body)
        later = (one for one in amendments if (one.amends or 0) <= entry.seq < one.seq)
        yield entry, about, tuple(later)


def job_folder(name: str) -> str:
    """The folder of a job's pages."""
    return f"jobs/{_part(name)}"


def account_folder(name: str) -> str:
    """The folder of an account's pages."""
    return f"accounts/{_part(name)}"


def link(folder: str) -> str:
    """The address of a folder's page, from the site's root."""
    return quote(f"{folder}/{PAGE}")


def entry_link(of: Entry) -> str:
    """The address of an entry's line in its account's record, from the site's root."""
    return f"{link(account_folder(of.account))}#entry-{of.seq}"


def root(folder: str) -> str:
    """The way from a folder's page back to the site's root."""
    return "../" * len(PurePosixPath(folder).parts)


def _part(name: str) -> str:
    """One step of a path: no name from a ledger leads out of the site."""
    if name in ("", ".", "..") or any(char in name for char in "/\\\0"):
        raise LedgerError(f"{name!r} cannot be the name of a folder")
    return name
