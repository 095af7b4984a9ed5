"""What machines read: the table as CSV, the release and the record as JSON, the page's digits."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Any

from release.accounting import RHO_UNITS
from release.ledger import chain
from release.ledger.records import Account, Entry, Release
from release.site import figures, views
from release.site.addresses import Published
from release.site.contexts import Conversion, RowView
from release.site.guarantee import conversions, job_cap, scale
from release.windows import Window

COLUMNS = ("group", "value", "lower", "upper", "status")
MORE_COLUMNS = {"mean": ("count",), "leaderboard": ("rank", "rank_lower", "rank_upper")}
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""What makes a spreadsheet take the cell that starts with it for a formula."""


def data_csv(of: Published) -> bytes:
    """The whole table. A name that a spreadsheet would run gets a leading apostrophe."""
    columns = (*COLUMNS, *MORE_COLUMNS[of.release.job.statistic.kind])
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, extrasaction="ignore")
    writer.writeheader()
    writer.writerows(_cells(row) for row in views.rows(of.release))
    return text.getvalue().encode()


def release_json(of: Published) -> bytes:
    """The release with everything that is needed to compute its ε again."""
    account, entry, release = of.account, of.entry, of.release
    return _document(
        {
            "format": 1,
            "project": account.about.title,
            "job": of.job,
            "title": release.job.title,
            "window": _window(of.window),
            "rows": [_json_row(row) for row in views.rows(release)],
            **_request(release),
            **_cost(of),
            "unit": account.terms.unit,
            "unit_name": account.about.unit_name,
            "neighbouring": account.terms.neighbouring,
            "account": entry.account,
            "entry": entry.seq,
            "charged_at": chain.instant(entry.charged_at),
            "hash": entry.hash,
            "previous": entry.previous,
            "software": release.software.model_dump(),
            "contact": account.about.contact,
            "licence": account.about.licence,
        }
    )


def ledger_json(account: Account) -> bytes:
    """The account's whole record, entry by entry, with its chain of hashes."""
    terms, spent = account.terms, account.last.spent.units
    return _document(
        {
            "format": 1,
            "account": terms.account,
            "unit": terms.unit,
            "neighbouring": terms.neighbouring,
            "time_zone": terms.time_zone,
            "opened_at": chain.instant(account.opened_at),
            "units_of_rho": RHO_UNITS,
            "budget": _budget(account),
            "about": account.about.model_dump(),
            "spent": {
                "rho": figures.rho_number(spent),
                "epsilon": _to_date(conversions(account, account.last)),
            },
            "left": {"rho": figures.rho_number(terms.cap - spent)},
            "head": account.entries[-1].hash,
            "entries": [_entry(entry) for entry in account.entries],
        }
    )


def _request(release: Release) -> dict[str, Any]:
    """What was asked for, and the public parameters of the noise."""
    job, mechanism = release.job, release.mechanism
    steps = {total: float(scale(total, mechanism, job)) for total in mechanism.sigma}
    return {
        "schedule": job.schedule,
        "statistic": job.statistic.model_dump(),
        "contribution": job.contribution.model_dump(),
        "noise": job.noise.model_dump(),
        "mechanism": {**mechanism.model_dump(), "unit_of_step": steps},
    }


def _cost(of: Published) -> dict[str, Any]:
    """What was spent, by this release and up to it, and the budget that it is spent from."""
    account, entry = of.account, of.entry
    both = conversions(account, entry)
    cap = figures.rho_number(job_cap(of.release.job, account))
    return {
        "event": entry.event,
        "rho": {
            "release": figures.rho_number(entry.charge.units),
            "job_to_date": figures.rho_number(entry.job_spent),
            "account_to_date": figures.rho_number(entry.spent.units),
        },
        "epsilon": {
            "release": {each.name: _number(each.release) for each in both},
            "account_to_date": _to_date(both),
        },
        "delta": account.terms.delta,
        "budget": {**_budget(account), "job_cap": cap},
    }


def _entry(entry: Entry) -> dict[str, Any]:
    """Exactly what the entry's hash is taken over, and the amounts as numbers beside it."""
    return {
        **chain.sealed(entry),
        "hash": entry.hash,
        "rho": figures.rho_number(entry.charge.units),
        "rho_to_date": figures.rho_number(entry.spent.units),
    }


def _budget(account: Account) -> dict[str, Any]:
    terms = account.terms
    return {
        "epsilon": terms.epsilon,
        "delta": terms.delta,
        "accountant": terms.accountant,
        "cap": figures.rho_number(terms.cap),
    }


def _window(of: Window) -> dict[str, str]:
    view = views.window(of)
    return {
        "name": view.name,
        "label": view.label,
        "kind": view.kind,
        "start": view.start,
        "end": view.end,
        "time_zone": view.zone,
    }


def _cells(row: RowView) -> dict[str, str]:
    numbers = {"value": row.value, "lower": row.lower, "upper": row.upper, "count": row.count}
    ranks = {"rank": row.rank, "rank_lower": row.rank_lower, "rank_upper": row.rank_upper}
    return {
        "group": f"'{row.group}" if row.group.startswith(FORMULA) else row.group,
        "status": row.status,
        **{name: "" if each is None else each.raw for name, each in numbers.items()},
        **{name: "" if each is None else str(each) for name, each in ranks.items()},
    }


def _json_row(row: RowView) -> dict[str, Any]:
    optional = {
        "count": None if row.count is None else row.count.number,
        "rank": row.rank,
        "rank_lower": row.rank_lower,
        "rank_upper": row.rank_upper,
    }
    return {
        "group": row.group,
        "value": None if row.value is None else row.value.number,
        "lower": row.lower.number,
        "upper": row.upper.number,
        "status": row.status,
        **{name: each for name, each in optional.items() if each is not None},
    }


def _to_date(of: tuple[Conversion, ...]) -> dict[str, float | None]:
    return {each.name: _number(each.to_date) for each in of}


def _number(text: str | None) -> float | None:
    return None if text is None else float(text)


def _document(value: Mapping[str, Any]) -> bytes:
    text = json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False, default=_plain)
    return f"{text}\n".encode()


def _plain(value: object) -> int | float | str:
    """Decimals as the JSON numbers that they are, dates as text."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} has no place in a public document")
