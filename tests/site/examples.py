"""Accounts made by hand: ten weeks of means and of a leaderboard, then two refused weeks."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

from release.accounting import (
    RHO_UNITS,
    Budget,
    Charge,
    Composed,
    Event,
    Gaussian,
    PureDP,
    Spend,
    per_release_charge,
)
from release.ledger.chain import GENESIS, entry_hash
from release.ledger.records import (
    About,
    Account,
    Entry,
    EntryKind,
    Mechanism,
    Release,
    Row,
    Software,
    Table,
    Terms,
)
from release.specs import Contribution, Job, Leaderboard, Mean, Noise
from release.windows import Window

START = date(2026, 1, 5)
ZONE = "Europe/London"
OPENED = datetime(2026, 4, 1, 6, 0, tzinfo=UTC)
CATEGORIES = (
    *("Baking", "Barbecue", "Coffee", "Cookware", "Cutlery", "Glassware"),
    *("Kettles", "Knives", "Lighting", "Storage", "Tableware", "Textiles"),
)
PRODUCTS = tuple(f"{kind} no. {number}" for number in range(1, 11) for kind in CATEGORIES[:4])
NASTY = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "\u202egnp.exe\u202c",
    '=HYPERLINK("http://example.org")',
    "../../etc/passwd",
    "{{ page }} & 'quotes'",
    "@SUM(A1)",
    "🫖" + "x" * 5000,
)
SOFTWARE = Software(name="dp-release", version="0.1.0")


def means(groups: tuple[str, ...] = CATEGORIES, title: str = "Average rating") -> Job:
    return Job(
        name="category-ratings",
        title=title,
        dataset="ratings",
        schedule="weekly",
        window="week",
        start=START,
        statistic=Mean(
            by="category",
            groups=groups,
            origin="catalogue of 2025",
            value="rating",
            bounds=(Decimal(1), Decimal(5)),
        ),
        contribution=Contribution(max_groups=3, max_rows_per_group=1),
        noise=Noise(releases=10, share=Decimal("0.5")),
    )


def leaderboard(groups: tuple[str, ...] = PRODUCTS, top: int = 20) -> Job:
    return Job(
        name="top-products",
        title="Most rated products",
        dataset="ratings",
        schedule="weekly",
        window="week",
        start=START,
        statistic=Leaderboard(
            by="product", groups=groups, groups_file="data/products.csv", top=top
        ),
        contribution=Contribution(max_groups=5, max_rows_per_group=2, bounding="sample"),
        noise=Noise(releases=10, share=Decimal("0.5")),
    )


def mean_release(job: Job, week: int) -> Release:
    rows = []
    for place, group in enumerate(job.statistic.groups):
        value = 3.9 + 0.5 * math.sin(2.1 * place) + 0.06 * math.sin(5 * place + 1.7 * week)
        half = 0.05 + 0.012 * place
        count = 1840 - 137 * place + 31 * math.cos(week + place)
        known = place != 10 or week % 3 == 0
        rows.append(
            Row(
                group=group,
                value=round(value, 2) if known else None,
                lower=round(value - half, 2) if known else 1.0,
                upper=round(value + half, 2) if known else 5.0,
                status="published" if known else "not-reliable",
                count=round(count) if known else 41,
            )
        )
    return Release(
        software=SOFTWARE,
        job=job,
        mechanism=Mechanism(
            lattice_bits=20, sensitivity=1_816_187, sigma={"count": 1, "sum": 1}, level=0.95
        ),
        noisy={"count": (0,) * len(rows), "sum": (0,) * len(rows)},
        table=Table(decimals=2, count_decimals=0, rows=tuple(rows)),
    )


def leaderboard_release(job: Job, week: int) -> Release:
    counts = sorted(
        (
            (round(1480 / (1 + place / 3) + 40 * math.sin(3 * place + week)), group)
            for place, group in enumerate(job.statistic.groups)
        ),
        reverse=True,
    )
    last = len(counts)
    rows = tuple(
        Row(
            group=group,
            value=count,
            lower=max(count - 119, 0),
            upper=count + 119,
            status="published",
            rank=rank,
            rank_lower=max(1, rank - rank // 3),
            rank_upper=min(last, rank + rank // 2),
        )
        for rank, (count, group) in enumerate(counts, start=1)
    )
    return Release(
        software=SOFTWARE,
        job=job,
        mechanism=Mechanism(
            lattice_bits=20, sensitivity=4_689_377, sigma={"count": 1}, level=0.95
        ),
        noisy={"count": tuple(count << 20 for count, _ in counts)},
        table=Table(decimals=0, count_decimals=0, rows=rows),
    )


class Book:
    """Writes one account's record as a ledger would."""

    def __init__(
        self,
        name: str = "ratings",
        epsilon: str = "1.5",
        accountant: str = "gdp",
        threshold_share: str = "0",
        replaces: str | None = None,
    ):
        delta, aside = Decimal("1e-6"), Decimal(threshold_share)
        budget = Budget.open(accountant, Decimal(epsilon), delta, aside)
        self.terms = Terms(
            account=name,
            epsilon=Decimal(epsilon),
            delta=delta,
            accountant=accountant,
            unit="customer_id",
            time_zone=ZONE,
            order=None if budget.order is None else str(budget.order),
            cap=budget.cap,
            threshold_share=aside,
            delta_cap=budget.delta_cap,
            replaces=replaces,
        )
        self.about = About(
            title="Kitchen shop",
            contact="privacy@example.org",
            licence=None,
            unit_name="customer",
            time="rated_at",
            approved_by="A. Officer, 12 December 2025",
            reason=None,
        )
        self.entries: list[Entry] = []
        self.releases: dict[int, Release] = {}
        self.append("open", body=self.terms.model_dump(mode="json"))
        self.append("project", body=self.about.model_dump(mode="json"))

    def append(
        self,
        kind: EntryKind,
        *,
        job: str | None = None,
        window: Window | None = None,
        charge: int = 0,
        delta0: int = 0,
        event: Event | None = None,
        body: dict[str, Any] | None = None,
    ) -> Entry:
        before = self.entries[-1] if self.entries else None
        sums = before.sums if before else Spend()
        charged = charge if self.terms.order is None else 0
        entry = Entry(
            account=self.terms.account,
            seq=len(self.entries) + 1,
            kind=kind,
            job=job,
            window=window,
            start=None if window is None else window.start,
            end=None if window is None else window.end,
            charged_at=OPENED + timedelta(seconds=7 * len(self.entries)),
            charge=Charge(charge, delta0),
            spent=Charge(
                (before.spent.units if before else 0) + charge,
                (before.spent.delta0 if before else 0) + delta0,
            ),
            job_spent=sum(e.charge.units for e in self.entries if job and e.job == job)
            + (charge if job else 0),
            event=None if event is None else event.to_json(),
            sums=sums.plus(event, charged=charged) if event else sums,
            body=body or {},
            previous=before.hash if before else GENESIS,
            hash="",
        )
        entry = replace(entry, hash=entry_hash(entry))
        self.entries.append(entry)
        return entry

    def release(self, release: Release, window: Window) -> None:
        """Charges a release, its noise calibrated to the charge."""
        noise = release.job.noise
        assert noise.releases is not None
        charge = per_release_charge(self.terms.cap, Fraction(noise.share), noise.releases)
        release = release.model_copy(
            update={"mechanism": calibrated(release.mechanism, charge, self.terms)}
        )
        parts = [
            Gaussian(release.mechanism.sensitivity, sigma)
            for sigma in release.mechanism.sigma.values()
        ]
        entry = self.append(
            "release",
            job=release.job.name,
            window=window,
            charge=charge,
            event=Composed(tuple(parts)),
            body=release.model_dump(mode="json"),
        )
        self.releases[entry.seq] = release

    def describe(self, **changes: Any) -> None:
        """Changes what pages say of the account."""
        self.about = self.about.model_copy(update=changes)
        self.append("project", body=self.about.model_dump(mode="json"))

    def refuse(self, job: Job, window: Window, stop: str = "share") -> None:
        assert job.noise.releases is not None
        charge = per_release_charge(self.terms.cap, job.noise.share, job.noise.releases)
        body = {"title": job.title, "refused_charge": charge, "stopped_by": stop}
        self.append("refusal", job=job.name, window=window, body=body)

    def record(self, event: Event, reason: str) -> Entry:
        """Charges what was done elsewhere."""
        charge, delta0 = self.terms.budget.charge(event)
        body = {"reason": reason}
        return self.append("record", charge=charge, delta0=delta0, event=event, body=body)

    def account(self) -> Account:
        return Account(
            terms=self.terms,
            about=self.about,
            opened_at=OPENED,
            entries=tuple(self.entries),
            releases=dict(self.releases),
        )


def calibrated(mechanism: Mechanism, charge: int, terms: Terms) -> Mechanism:
    """The least σ whose Δ²/(2σ²), times the order of an account that has one, fits the charge."""
    order = Fraction(terms.order or 1)
    split = {"count": Fraction(366, 1000), "sum": Fraction(634, 1000)}
    parts = split if len(mechanism.sigma) == 2 else {"count": Fraction(1)}
    squares = {
        total: math.ceil(order * mechanism.sensitivity**2 * RHO_UNITS / (2 * part * charge))
        for total, part in parts.items()
    }
    sigma = {total: math.isqrt(square - 1) + 1 for total, square in squares.items()}
    return mechanism.model_copy(update={"sigma": sigma})


def week(number: int) -> Window:
    return Window("week", START + timedelta(weeks=number), ZONE)


def shop(weeks: int = 10, refusals: int = 2) -> Account:
    book = Book()
    mean, board = means(title="Average rating by category"), leaderboard()
    for number in range(weeks):
        book.release(mean_release(mean, number), week(number))
        book.release(leaderboard_release(board, number), week(number))
    for number in range(weeks, weeks + refusals):
        book.refuse(mean, week(number))
        book.refuse(board, week(number))
    return book.account()


def nasty() -> Account:
    """Names that must come out as text, in every place where a name is shown."""
    book = Book("visits", accountant="zcdp")
    title = '<b>Ratings</b> & "more" =1+1'
    book.describe(title="<i>Shop</i>", unit_name="<u>guest</u>", population=20_000)
    book.record(PureDP(1e-3, 5), "<b>trained</b> & \u202emore")
    mean, board = means(NASTY, title), leaderboard(NASTY, top=8)
    for number in range(2):
        book.release(mean_release(mean, number), week(number))
        book.release(leaderboard_release(board, number), week(number))
    return book.account()
