"""What the record says afterwards: corrections, notices, decisions on jobs, and audits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from release.ledger.kinds import Audit
from release.ledger.records import HALTS, Account, Entry
from release.site import figures, views
from release.site.addresses import Published, entry_link, job_folder, link
from release.site.contexts import (
    AuditView,
    CorrectedView,
    CorrectionView,
    HaltView,
    NoticeView,
)
from release.site.descriptions import described


@dataclass(frozen=True)
class Remarks:
    """What the records of all accounts say of jobs and to readers, found once for all pages."""

    accounts: tuple[Account, ...]

    def notices(
        self, root: str, *, account: str | None = None, job: str | None = None
    ) -> tuple[NoticeView, ...]:
        """Every notice, or those of one account or about one job alone, the newest first."""
        return tuple(
            NoticeView(
                day=views.day(entry.charged_at),
                text=entry.body["text"],
                account=entry.account,
                job=entry.job,
                href=root + entry_link(entry),
            )
            for entry in self._notices
            if account in (None, entry.account) and job in (None, entry.job)
        )

    def halts(
        self, root: str, *, account: str | None = None, job: str | None = None
    ) -> tuple[HaltView, ...]:
        """The paused and retired jobs, all or of one account or that one job.

        What an account says of its jobs counts until another replaces it.
        """
        return tuple(
            HaltView(
                job=entry.job or "",
                job_href=root + link(job_folder(entry.job or "")),
                state=HALTS[entry.kind],
                day=views.day(entry.charged_at),
                reason=entry.body["reason"],
                href=root + entry_link(entry),
            )
            for entry in self._halts
            if account in (None, entry.account) and job in (None, entry.job)
        )

    def last_audit(self, account: str, job: str, root: str) -> AuditView | None:
        """The last audit of a job, if there was one."""
        last = self._audits.get((account, job))
        return None if last is None else audit(last, root)

    @cached_property
    def _notices(self) -> list[Entry]:
        found = [entry for entry in self._entries() if entry.kind == "notice"]
        return sorted(found, key=lambda entry: (entry.charged_at, entry.seq), reverse=True)

    @cached_property
    def _halts(self) -> list[Entry]:
        replaced = {account.terms.replaces for account in self.accounts}
        going_on = (each for each in self.accounts if each.terms.account not in replaced)
        return [entry for account in going_on for entry in account.halted.values()]

    @cached_property
    def _audits(self) -> dict[tuple[str, str | None], Entry]:
        found = (entry for entry in self._entries() if entry.kind == "audit")
        return {(entry.account, entry.job): entry for entry in found}

    def _entries(self) -> Iterator[Entry]:
        return (entry for account in self.accounts for entry in account.entries)


def corrected(of: Published, root: str) -> CorrectedView | None:
    """What a release really cost, if it was found to have cost more than it was charged."""
    if not of.corrections:
        return None
    units = of.cost.charge.units
    return CorrectedView(
        corrections=tuple(correction(each, root) for each in of.corrections),
        charge=figures.rho(units),
        epsilon=views.epsilon(of.account, units),
    )


def understated(of: Published, root: str) -> tuple[CorrectionView, ...]:
    """The later corrections of what was charged before a release."""
    return tuple(correction(each, root) for each in of.amendments if each.amends != of.entry.seq)


def correction(entry: Entry, root: str) -> CorrectionView:
    """One correction, in words."""
    return CorrectionView(
        entry=entry.seq,
        amends=entry.amends or 0,
        day=views.day(entry.charged_at),
        reason=entry.body["reason"],
        event=described(entry.event or {}),
        charge=figures.rho(entry.charge.units),
        delta0=figures.delta0(entry.charge.delta0),
        href=root + entry_link(entry),
    )


def audit(entry: Entry, root: str) -> AuditView:
    """What an audit measured: figures as they were written."""
    body = Audit.model_validate(entry.body)
    return AuditView(
        day=views.day(entry.charged_at),
        measured=figures.plain(body.measured_epsilon),
        claimed=figures.plain(body.claimed_epsilon),
        exceeds=body.measured_epsilon > body.claimed_epsilon,
        delta=figures.plain(body.delta),
        error=figures.plain(100 * (1 - body.confidence)),
        trials=f"{body.trials:,}",
        software=f"{body.software.name} {body.software.version}",
        href=root + entry_link(entry),
    )
