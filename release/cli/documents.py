"""What the commands print: a document for ``--json``, and the same in words.

A loss is rounded up where it is printed in words, and what is left is rounded down.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from fractions import Fraction
from typing import Any

from release.accounting import RHO_UNITS
from release.cli.words import counted
from release.errors import UsageError
from release.ledger.chain import instant, sealed, window_document
from release.ledger.charges import alone
from release.ledger.records import HALTS, Account, Entry, Terms
from release.ledger.verification import Finding
from release.project import Project, Run
from release.site.figures import round_up

Document = dict[str, Any]


def check(project: Project) -> Document:
    """The jobs that were read, and what deserves a second look."""
    return {
        "jobs": [job.name for job in project.files.jobs],
        "warnings": project.check(),
    }


def check_words(document: Document) -> str:
    """The same in words."""
    lines = [f"No fault in the project and its {counted(len(document['jobs']), 'job')}."]
    return "\n".join(lines + [f"Note: {warning}" for warning in document["warnings"]])


def run(result: Run, project: Project) -> Document:
    """What became of each window; halted jobs and the first error beside it, if there are any."""
    terms = {account.terms.account: account.terms for account in project.accounts()}
    document: Document = {
        "releases": [
            {
                "job": one.job,
                "window": one.window.name,
                "start": instant(one.window.start),
                "end": instant(one.window.end),
                "status": one.status,
                "entry": one.entry and one.entry.seq,
                "epsilon": one.entry and _epsilon(terms[one.entry.account], one.entry),
            }
            for one in result.settled
        ]
    }
    if result.halted:
        document["halted"] = _halts(result.halted.values())
    if result.errors:
        document["error"] = result.errors[0].document()
    return document


def run_words(result: Run, project: Project) -> str:
    """What was published, what was refused, and which file to open."""
    if result.errors and not result.settled:
        return ""  # the errors say all there is
    counts = Counter(one.status for one in result.settled)
    if not result.settled and not result.errors:
        halted = ", or its job is paused or retired" if result.halted else ""
        lines = [f"Nothing was due: every window that has ended is released or refused{halted}."]
    else:
        lines = [
            f"{counts['published']} published, {counts['refused']} refused by the budget"
            + (f", {counts['failed']} failed" if counts["failed"] else "")
            + "."
        ]
    lines += map(_halt_words, _halts(result.halted.values()))
    lines += [_spent_words(_budget(account, None)) for account in project.accounts()]
    return "\n".join([*lines, f"Open {project.site_folder / 'index.html'}"])


def status(project: Project, now: datetime) -> Document:
    """Accounts, what is due, and the jobs that the budget or a decision has stopped."""
    accounts = project.accounts()
    replaced = {account.terms.replaces for account in accounts}
    going_on = [account for account in accounts if account.terms.account not in replaced]
    return {
        **budget(accounts, now),
        "due": [
            {
                "job": due.job.name,
                "account": due.job.dataset,
                "window": due.window.name,
                "end": instant(due.window.end),
            }
            for due in project.due(now, project.jobs())
        ],
        "stopped": sorted({job for account in accounts for job in account.stopped_jobs}),
        "halted": _halts(entry for account in going_on for entry in account.halted.values()),
    }


def status_words(document: Document) -> str:
    """The same in words."""
    due = Counter((one["job"], one["account"]) for one in document["due"])
    overdrawn = {one["name"]: one["overdrawn"] for one in document["accounts"]}
    return "\n".join(
        [
            budget_words(document),
            *(
                _due_words(job, account, count, overdrawn.get(account))
                for (job, account), count in sorted(due.items())
            ),
            *(f"stopped by the budget: {job}" for job in document["stopped"]),
            *map(_halt_words, document["halted"]),
        ]
    )


def _due_words(job: str, account: str, count: int, overdrawn: Document | None) -> str:
    due = f"due: {job}, {counted(count, 'window')}"
    if overdrawn is None:
        return due
    return (
        f"{due}, but nothing of it will be released: account {account} has spent more than its"
        f" budget, as entry {overdrawn['entry']} showed"
    )


def _halts(entries: Iterable[Entry]) -> list[Document]:
    return [halt_document(entry) for entry in entries]


def halt_document(entry: Entry) -> Document:
    """By which decision a job is paused or retired."""
    return {
        "job": entry.job,
        "state": HALTS[entry.kind],
        "since": instant(entry.charged_at),
        "reason": entry.body["reason"],
        "account": entry.account,
        "entry": entry.seq,
    }


def _halt_words(halt: Document) -> str:
    return (
        f"{halt['state']} since {halt['since'][:10]}: {halt['job']}, so nothing of it is due"
        f" (reason: {halt['reason']})"
    )


def budget(accounts: Sequence[Account], now: datetime, *, pld: bool = False) -> Document:
    """Each account's spend by every formula, and what is left of it.

    ``pld`` adds ε by the privacy-loss distribution, which takes a second and more.
    """
    document: Document = {"accounts": [_budget(account, now) for account in accounts]}
    if pld:
        for account, one in zip(accounts, document["accounts"], strict=True):
            one["spent"]["epsilon"]["pld"] = _pld(account)
    return document


def _pld(account: Account) -> float | None:
    from release.accounting.interop import pld_epsilon

    spent = account.composition
    return 0.0 if spent is None else pld_epsilon(spent, account.terms.delta)


def budget_words(document: Document) -> str:
    """The same in words."""
    if not document["accounts"]:
        return "No account is open yet: the first `dp-release run` opens them."
    return "\n".join(line for account in document["accounts"] for line in _budget_lines(account))


def _budget_lines(account: Document) -> list[str]:
    formulas = (
        f"{name} {'does not apply' if epsilon is None else round_up(epsilon)}"
        for name, epsilon in account["spent"]["epsilon"].items()
    )
    held = account["filter"]
    left, quantity = max(0, held["cap"] - held["spent"]), "ε(α*)" if held["order"] else "ρ"
    return [
        _spent_words(account),
        f"  spent so far, by every formula: {', '.join(formulas)}",
        f"  left of the cap on {quantity}: {left:,} of {held['cap']:,} units of 1e-12",
        *_overdrawn_words(account["overdrawn"]),
    ]


def _overdrawn_words(overdrawn: Document | None) -> list[str]:
    if overdrawn is None:
        return []
    entry = f"a correction on {overdrawn['since'][:10]} (entry {overdrawn['entry']})"
    return [f"  {entry} showed that more was spent than that; everything has stopped"]


def _spent_words(account: Document) -> str:
    spent = round_up(account["filter"]["epsilon"])
    return (
        f"Account {account['name']}: ε at most {spent} of {account['epsilon']:g} spent at"
        f" δ = {account['delta']:g}, by {account['accountant']};"
        f" {counted(account['releases'], 'release')}."
    )


def verification(count: int, found: Sequence[Finding]) -> Document:
    """Whether the ledger is intact, and what is wrong with which entry."""
    faults = [{"account": one.account, "seq": one.seq, "what": one.what} for one in found]
    return {"intact": not faults, "entries": count, "faults": faults}


def verification_words(document: Document) -> str:
    """The same in words."""
    lines = [f"{one['account']} entry {one['seq']}: {one['what']}" for one in document["faults"]]
    if not document["entries"] and document["intact"]:
        return "There is no ledger yet."
    count = counted(document["entries"], "entry", "entries")
    lines.append(f"{count}, {'' if document['intact'] else 'NOT '}intact.")
    if not document["intact"]:
        lines.append("Put the newest intact ledger back: docs/ledger.md says how.")
    return "\n".join(lines)


def entry(accounts: Sequence[Account], name: str, seq: int) -> Document:
    """One entry with everything that it says, and the result that it paid for."""
    for account in accounts:
        for one in account.entries:
            if (one.account, one.seq) == (name, seq):
                content = account.releases.get(seq)
                return {
                    **sealed(one),
                    "hash": one.hash,
                    "result": content and content.model_dump(mode="json"),
                }
    raise UsageError(f"account {name!r} has no entry {seq}")


def written(account: Account, entry: Entry) -> Document:
    """The entry that a command has added to the record."""
    return {"entry": _entry(account, entry)}


def written_words(document: Document) -> str:
    """The same in words."""
    one = document["entry"]
    return f"Written as entry {one['seq']} of account {one['account']}, and on its pages."


def entries(accounts: Sequence[Account]) -> Document:
    """Every entry of every account."""
    return {
        "entries": [_entry(account, entry) for account in accounts for entry in account.entries]
    }


def entries_words(document: Document) -> str:
    """One line an entry."""
    return "\n".join(_entry_words(one) for one in document["entries"])


def _entry_words(one: Document) -> str:
    about = one["window"]["first"] if one["window"] else ""
    if one["amends"] is not None:
        about = f"corrects entry {one['amends']}"
    return (
        f"{one['account']} {one['seq']:>5}  {one['charged_at'][:19]}Z  {one['kind']:<8}"
        f"  {_shown_rho(one['rho'])}  {one['job'] or ''} {about}"
    ).rstrip()


def _shown_rho(rho: float | None) -> str:
    return f"{'no ρ':<16}" if rho is None else f"ρ {rho:.12f}"


def _epsilon(terms: Terms, entry: Entry) -> float:
    return terms.budget.spent_epsilon(entry.spent.units)


def _rho(units: int | None) -> float | None:
    return None if units is None else units / RHO_UNITS


def _budget(account: Account, now: datetime | None) -> Document:
    """The odometer under ``spent``, what the guarantee rests on under ``filter``."""
    terms, last = account.terms, account.last
    left, overdrawn = max(0, terms.cap - last.spent.units), account.overdrawn_by
    return {
        "name": terms.account,
        "epsilon": float(terms.epsilon),
        "delta": float(terms.delta),
        "accountant": terms.accountant,
        "as_of": now and instant(now),
        "spent": {
            "rho": _rho(last.sums.rho),
            "epsilon": last.sums.epsilons(terms.budget.delta),
        },
        "left": {"rho": _rho(left) if terms.order is None else None},
        "filter": {
            "epsilon": _epsilon(terms, last),
            "order": terms.order and float(Fraction(terms.order)),
            "cap": terms.cap,
            "spent": last.spent.units,
            "delta_cap": terms.delta_cap,
            "delta_spent": last.spent.delta0,
        },
        "releases": len(account.releases),
        "stopped": account.stopped,
        "overdrawn": overdrawn
        and {"entry": overdrawn.seq, "since": instant(overdrawn.charged_at)},
    }


def _entry(account: Account, entry: Entry) -> Document:
    return {
        "seq": entry.seq,
        "account": entry.account,
        "kind": entry.kind,
        "job": entry.job,
        "window": window_document(entry),
        "charged_at": instant(entry.charged_at),
        "rho": _rho(alone(account, entry).rho),
        "amends": entry.amends,
        "event": entry.event,
        "hash": entry.hash,
    }
