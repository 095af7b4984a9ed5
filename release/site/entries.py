"""The lines of an account's record, as the table of its page shows them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from release.ledger.charges import alone
from release.ledger.records import Account, Entry, EntryKind
from release.site import afterwards, figures, views
from release.site.contexts import EntryView
from release.site.descriptions import described

SAYS: Mapping[EntryKind, str] = {
    "record": "reason",
    "history": "description",
    "amend": "reason",
    "notice": "text",
    "pause": "reason",
    "resume": "reason",
    "retire": "reason",
}
"""Where in its body an entry says something for readers."""
DESCRIBED = ("record", "history", "amend")
"""The kinds whose event is put into words; a release's page says what that cost."""


def entries(account: Account, links: Mapping[int, str], root: str) -> Iterator[EntryView]:
    """Every line; ``links`` are the pages of releases, by the number of the entry."""
    amended = account.amended
    for entry in account.entries:
        yield EntryView(
            seq=entry.seq,
            charged_at=views.instant(entry.charged_at),
            kind=entry.kind,
            job=entry.job,
            window=None if entry.window is None else views.window(entry.window),
            href=links.get(entry.seq),
            stopped_by=views.stopped_by(entry),
            event=described(entry.event) if entry.event and entry.kind in DESCRIBED else None,
            said=entry.body.get(SAYS.get(entry.kind, "")),
            date=entry.body.get("date") if entry.kind == "history" else None,
            amends=entry.amends,
            amended_by=tuple(each.seq for each in amended.get(entry.seq, ())),
            audit=afterwards.audit(entry, root) if entry.kind == "audit" else None,
            charge=figures.rho(entry.charge.units),
            rho=_rho(account, entry),
            delta0=figures.delta0(entry.charge.delta0),
            spent=figures.rho(entry.spent.units),
            epsilon=views.epsilon(account, entry.spent.units),
            hash=entry.hash,
        )


def _rho(account: Account, entry: Entry) -> str | None:
    """What an entry costs in ρ: its charge, but for an account that counts something else."""
    if account.terms.order is None or entry.event is None:
        return figures.rho(entry.charge.units)
    rho = alone(account, entry).rho
    return None if rho is None else figures.rho(rho)
