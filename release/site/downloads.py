"""What machines read: the table as CSV, the release and the record as JSON, the page's digits."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any

from release.accounting import DELTA_UNITS, RHO_UNITS
from release.ledger import chain
from release.ledger.charges import alone
from release.ledger.records import HALTS, Account, Entry, Release
from release.site import figures, views
from release.site.addresses import Published
from release.site.contexts import Conversion, RowView, SpanView
from release.site.figures import Figure
from release.site.guarantee import job_cap, scale
from release.site.past import Past
from release.site.spending import Spending, delta_number, shown
from release.specs import Leaderboard
from release.windows import Window

COLUMNS = ("value", "lower", "upper", "status")
BESIDE = ("", "_lower", "_upper", "_status")
"""The columns of what stands beside each row, after its name."""
RANKS = ("rank", "rank_lower", "rank_upper")
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""What makes a spreadsheet take the cell that starts with it for a formula."""


def data_csv(of: Published, past: Past) -> bytes:
    """The whole table. A name that a spreadsheet would run gets a leading apostrophe.

    Groups of several columns have one for each, called like it, or ``by_`` and its name where
    one of them is called like a column of numbers.
    """
    release = of.release
    spec = release.job.statistic
    numbers = [
        *COLUMNS,
        *(["count"] if len(release.noisy) > 1 else []),
        *(RANKS if isinstance(spec, Leaderboard) else []),
        *(f"{name}{end}" for name in _beside(release) for end in BESIDE),
    ]
    prefix = "by_" if set(spec.columns) & set(numbers) else ""
    names = [prefix + name for name in spec.columns] if len(spec.columns) > 1 else ["group"]
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([*map(_harmless, names), *numbers])
    for row, spans in zip(of.rows, past.spans, strict=True):
        cells = _cells(row) | _beside_cells(*spans)
        writer.writerow([*map(_harmless, row.names), *(cells[number] for number in numbers)])
    return text.getvalue().encode()


def release_json(of: Published, past: Past) -> bytes:
    """The release with everything that is needed to compute its ε again."""
    account, entry, release = of.account, of.entry, of.release
    return _document(
        {
            "format": 1,
            "project": of.about.title,
            "job": of.job,
            "title": release.job.title,
            "window": _window(of.window),
            "rows": [
                {**_json_row(row), **_json_beside(*spans)}
                for row, spans in zip(of.rows, past.spans, strict=True)
            ],
            "beside": {
                "before": past.before and past.before.window.name,
                "first": past.first.name,
                "windows": past.windows,
                "possible": past.possible,
            },
            **_request(release),
            **_cost(of),
            "unit": account.terms.unit,
            "unit_name": of.about.unit_name,
            "neighbouring": account.terms.neighbouring,
            "account": entry.account,
            "entry": entry.seq,
            "charged_at": chain.instant(entry.charged_at),
            "hash": entry.hash,
            "previous": entry.previous,
            "corrected": _corrected(of),
            "corrections": [_correction(each) for each in of.amendments],
            "software": release.software.model_dump(),
            "contact": of.about.contact,
            "licence": of.about.licence,
        }
    )


def ledger_json(of: Spending) -> bytes:
    """The account's whole record, entry by entry, with its chain of hashes.

    An entry is given with everything that it says, whatever its kind, so that a reader who does
    not know the kind can still check the chain and the sums.
    """
    account = of.account
    terms = account.terms
    return _document(
        {
            "format": 1,
            "account": terms.account,
            "unit": terms.unit,
            "neighbouring": terms.neighbouring,
            "time_zone": terms.time_zone,
            "opened_at": chain.instant(account.opened_at),
            "replaces": terms.replaces,
            "units": RHO_UNITS,
            "delta_units": DELTA_UNITS,
            "about": account.about.model_dump(),
            "filter": _filter(account, account.last),
            "odometer": {
                **_odometer(account, of.sums.rho, _to_date(of.conversions)),
                "statement": {
                    "epsilon": float(of.statement.epsilon),
                    "delta": views.spent_delta(account),
                    "formula": of.statement.name,
                },
                "warning": of.warning,
                "for_comparison_only": {
                    each.name: _number(each.epsilon) for each in of.comparison
                },
                "curve": "curve.json",
            },
            "overdrawn": account.overdrawn,
            "corrections": [
                _correction(each) for each in account.entries if each.amends is not None
            ],
            "halted": {job: HALTS[entry.kind] for job, entry in account.halted.items()},
            "head": account.last.hash,
            "entries": [_entry(entry) for entry in account.entries],
        }
    )


def curve_json(of: Spending) -> bytes:
    """The Rényi curve of everything spent, over the whole grid of orders."""
    return _document(of.document())


def _request(release: Release) -> dict[str, Any]:
    """What was asked for, and the public parameters of the noise."""
    job, mechanism = release.job, release.mechanism
    steps = {total: float(scale(total, mechanism, job)) for total in mechanism.sigma}
    return {
        "schedule": job.schedule,
        "statistic": job.statistic.model_dump(),
        "contribution": job.contribution.model_dump(),
        "noise": job.noise.model_dump(),
        "publish": job.publish.model_dump(),
        "mechanism": {**mechanism.model_dump(), "unit_of_step": steps},
    }


def _cost(of: Published) -> dict[str, Any]:
    """What the guarantee rests on, and what was spent by this release and up to it."""
    account, entry = of.account, of.entry
    one = {each.name: _number(each.release) for each in of.conversions}
    return {
        "event": entry.event,
        "sums": entry.sums.to_json(),
        "filter": {
            **_filter(account, entry),
            "charge": entry.charge.units,
            "delta_charge": entry.charge.delta0,
            "job_spent": entry.job_spent,
            "job_cap": job_cap(of.release.job, account),
        },
        "odometer": {
            "release": _odometer(account, alone(account, entry).rho, one),
            "account_to_date": _odometer(account, entry.sums.rho, _to_date(of.conversions)),
        },
    }


def _filter(account: Account, after: Entry) -> dict[str, Any]:
    """The account's budget and the whole units that a charge is held against."""
    terms = account.terms
    return {
        "epsilon": terms.epsilon,
        "delta": terms.delta,
        "accountant": terms.accountant,
        "threshold_share": terms.threshold_share,
        "quantity": "rho" if terms.order is None else "epsilon-at-order",
        "order": None if terms.order is None else float(Fraction(terms.order)),
        "cap": terms.cap,
        "spent": after.spent.units,
        "left": max(0, terms.cap - after.spent.units),
        "delta_cap": terms.delta_cap,
        "delta_spent": after.spent.delta0,
    }


def _odometer(
    account: Account, rho: int | None, epsilon: dict[str, float | None]
) -> dict[str, Any]:
    """What was spent, by every formula at what δ_T leaves of δ."""
    return {
        "delta": delta_number(account.terms.budget.delta),
        "rho": None if rho is None else figures.rho_number(rho),
        "epsilon": epsilon,
    }


def _correction(entry: Entry) -> dict[str, Any]:
    """What a correction says: by how much it raised which charge, why, and for what event."""
    return {
        "entry": entry.seq,
        "amends": entry.amends,
        "charged_at": chain.instant(entry.charged_at),
        "reason": entry.body["reason"],
        "charge": entry.charge.units,
        "delta_charge": entry.charge.delta0,
        "event": entry.event,
    }


def _corrected(of: Published) -> dict[str, Any] | None:
    """What a release really cost, all corrections counted; None where there are none."""
    if not of.corrections:
        return None
    account, cost = of.account, of.cost
    epsilons = cost.sums.epsilons(account.terms.budget.delta)
    return {
        "charge": cost.charge.units,
        "delta_charge": cost.charge.delta0,
        "event": of.corrections[-1].event,
        "sums": cost.sums.to_json(),
        "odometer": _odometer(
            account, cost.sums.rho, {name: _number(shown(e)) for name, e in epsilons.items()}
        ),
    }


def _entry(entry: Entry) -> dict[str, Any]:
    """Exactly what the entry's hash is taken over, and its hash."""
    return {**chain.sealed(entry), "hash": entry.hash}


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
        "status": row.status,
        **{name: "" if each is None else each.raw for name, each in numbers.items()},
        **{name: "" if each is None else str(each) for name, each in ranks.items()},
    }


def _beside(release: Release) -> list[str]:
    """What stands beside each row: nothing that the job turned off."""
    publish = release.job.publish
    return [name for name in ("change", "running") if getattr(publish, name)]


def _beside_cells(change: SpanView | None, running: SpanView | None) -> dict[str, str]:
    cells: dict[str, str] = {}
    for name, span in (("change", change), ("running", running)):
        if span is not None:
            numbers = ("" if each is None else each.raw for each in _numbers(span))
            cells |= {
                f"{name}{end}": cell
                for end, cell in zip(BESIDE, [*numbers, span.status], strict=True)
            }
    return cells


def _json_beside(change: SpanView | None, running: SpanView | None) -> dict[str, Any]:
    return {
        name: dict(
            zip(
                COLUMNS,
                [*(each and each.number for each in _numbers(span)), span.status],
                strict=True,
            )
        )
        for name, span in (("change", change), ("running", running))
        if span is not None
    }


def _numbers(span: SpanView) -> tuple[Figure | None, ...]:
    return span.value, span.lower, span.upper


def _harmless(name: str) -> str:
    return f"'{name}" if name.startswith(FORMULA) else name


def _json_row(row: RowView) -> dict[str, Any]:
    optional = {
        "count": None if row.count is None else row.count.number,
        "rank": row.rank,
        "rank_lower": row.rank_lower,
        "rank_upper": row.rank_upper,
    }
    return {
        "group": row.group if len(row.names) == 1 else row.names,
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
