"""Accounts made by hand: ten weeks of means and of a leaderboard, then two refused weeks."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from release.accounting import (
    RHO_UNITS,
    Budget,
    Charge,
    Composed,
    Event,
    Gaussian,
    PureDP,
    Spend,
    event_from_json,
    per_release_charge,
)
from release.bounding import Totals
from release.ledger.chain import GENESIS, entry_hash
from release.ledger.charges import standing
from release.ledger.kinds import Amendment, Audit, Decision, History, Notice
from release.ledger.records import (
    About,
    Account,
    Entry,
    EntryKind,
    Mechanism,
    Record,
    Release,
    Row,
    Software,
    Table,
    Terms,
)
from release.pipeline import plan
from release.specs import (
    ONE,
    Condition,
    Contribution,
    Count,
    Job,
    Key,
    Leaderboard,
    Mean,
    Noise,
    Publish,
    Statistic,
    Sum,
)
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


def weekly(name: str, title: str, statistic: Statistic, **changes: Any) -> Job:
    """A weekly job on sales; ``changes`` replace what it asks for by default."""
    asked: dict[str, Any] = {
        "dataset": "sales",
        "contribution": Contribution(max_groups=2, max_rows_per_group=1),
        "noise": Noise(releases=20, share=Decimal("0.3")),
    }
    return Job(
        name=name,
        title=title,
        schedule="weekly",
        window="week",
        start=START,
        statistic=statistic,
        **(asked | changes),
    )


def sums() -> Job:
    """Sums by two columns of the rows that pass two conditions, within a tighter norm."""
    groups = tuple((region, kind) for region in ("North", "South") for kind in CATEGORIES[:3])
    where = (
        Condition(column="channel", operator="in", value=("web", "shop")),
        Condition(column="discount", operator="<", value=Decimal("0.5")),
    )
    return weekly(
        "sales-by-region",
        "Sales by region and category",
        Sum(
            by=("region", "category"),
            groups=groups,
            where=where,
            value="amount",
            bounds=(Decimal(0), Decimal("62.5")),
            origin="the price list of 2025",
        ),
        contribution=Contribution(
            max_groups=3, max_rows_per_group=4, max_norm=Decimal("4.5"), origin="a guess"
        ),
        level=Decimal("0.99"),
    )


def units() -> Job:
    """Counts of units, shown as the noise left them."""
    statistic = Count(by="shop", groups=("High Street", "Market", "Station", "Web"), of="units")
    publish = Publish(nonnegative=False, rounded=False)
    return weekly("customers", "Customers by shop", statistic, publish=publish)


def best() -> Job:
    """A leaderboard of means."""
    statistic = Leaderboard(
        by="category",
        groups=CATEGORIES,
        of="mean",
        top=10,
        value="rating",
        bounds=(Decimal(1), Decimal(5)),
    )
    return weekly("best-rated", "Best rated categories", statistic, level=Decimal("0.8"))


def mean_release(job: Job, week: int) -> Release:
    rows = []
    for place, group in enumerate(job.statistic.listed):
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
            for place, group in enumerate(job.statistic.listed)
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
        sums: Spend | None = None,
        body: dict[str, Any] | None = None,
    ) -> Entry:
        before = self.entries[-1] if self.entries else None
        odometer = before.sums if before else Spend()
        if event is not None:
            charged = charge if self.terms.order is None else 0
            odometer = odometer.plus(event, charged=charged) if sums is None else sums
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
            sums=odometer,
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

    def publish(
        self,
        job: Job,
        totals: dict[str, list[int]],
        window: Window,
        *,
        groups: Sequence[Key] | None = None,
        known: Collection[Key] = (),
    ) -> None:
        """Releases as the pipeline does, with noise that is fixed and spread over ± 2σ."""
        planned = plan(job, self.terms)
        exact = Totals(job.statistic.listed if groups is None else groups, totals)
        release = planned.published(exact, evenly, known)
        entry = self.append(
            "release",
            job=job.name,
            window=window,
            charge=planned.charge.units,
            delta0=planned.charge.delta0,
            event=planned.mechanism.event,
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

    def history(self, event: Event, day: date, description: str) -> Entry:
        """Charges what was spent before."""
        charge, delta0 = self.terms.budget.charge(event)
        body = History(date=day, description=description).model_dump(mode="json")
        return self.append("history", charge=charge, delta0=delta0, event=event, body=body)

    def amend(self, seq: int, event: Event, reason: str) -> Entry:
        """Raises a charge to that of the event."""
        found, last = self.entries[seq - 1], self.entries[-1]
        before = standing(self.terms, [found, *self.account().amended.get(seq, ())])
        charge = before.missing(self.terms, event)
        assert charge is not None
        return self.append(
            "amend",
            job=found.job,
            charge=charge.units,
            delta0=charge.delta0,
            event=event,
            sums=last.sums.together(before.added(self.terms, charge, event)),
            body=Amendment(amends=seq, reason=reason).model_dump(mode="json"),
        )

    def note(self, kind: EntryKind, body: Record, job: str | None = None) -> Entry:
        """What charges nothing."""
        return self.append(kind, job=job, body=body.model_dump(mode="json"))

    def decide(self, kind: EntryKind, job: str, reason: str) -> Entry:
        """Pauses, resumes or retires a job."""
        return self.note(kind, Decision(reason=reason), job)

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


def evenly(sigma: int | float | Fraction, count: int) -> NDArray[Any]:
    return np.array([int(sigma) * ((13 * place + 8) % 41 - 20) // 10 for place in range(count)])


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


def sales() -> Account:
    """Two weeks of each kind of statistic that the other accounts do not have."""
    book = Book("sales", epsilon="3")
    for number in range(2):
        amounts = [ONE * (900 - 150 * place + 40 * number) for place in range(6)]
        book.publish(sums(), {"sum": amounts}, week(number))
        people = [ONE * each for each in (310, 120 + number, 0, 2)]
        book.publish(units(), {"count": people}, week(number))
        counts = [ONE * (2600 - 230 * place) for place in range(12)]
        ratings = [
            count * (20 - 7 * place % 11 + number) // 40 for place, count in enumerate(counts)
        ]
        book.publish(best(), {"count": counts, "sum": ratings}, week(number))
    return book.account()


def found() -> Account:
    """Groups that were discovered: two weeks of a board, one of sums, and one that is empty."""
    book = Book("browsing", "3", threshold_share="0.2")
    board = Leaderboard(by="page", groups="discover-new", top=5)
    spent = Sum(
        by=("town", "page"),
        groups="discover",
        value="seconds",
        bounds=(Decimal(0), Decimal(60)),
        origin="the server's limit on a visit",
    )
    asked = {"dataset": "browsing"}
    pages = [f"/page/{place}" for place in range(9)]
    for number in range(2):
        counts = [ONE * (420 - 70 * place + 60 * number) for place in range(9)]
        book.publish(
            weekly("most-visited", "Most visited pages", board, **asked),
            {"count": counts},
            week(number),
            groups=pages,
            known=["/page/5", "/page/8"] if number else (),
        )
    sampled = Contribution(max_groups=2, max_rows_per_group=3, bounding="sample")
    places = [(town, page) for town in ("Leeds", "York") for page in pages[:2]]
    counts = [ONE * each for each in (900, 120, 0, 300)]
    book.publish(
        weekly("time-spent", "Seconds spent by town", spent, contribution=sampled, **asked),
        {"count": counts, "sum": [each // 3 for each in counts]},
        week(0),
        groups=places,
    )
    rare = Count(by="page", groups="discover")
    job = weekly("rare-pages", "Rare pages", rare, **asked)
    book.publish(job, {"count": [ONE] * 3}, week(0), groups=pages[:3])
    return book.account()


def eventful() -> Account:
    """Every kind of entry: two weeks as usual, and what was found and decided around them."""
    book = Book(epsilon="2")
    mean, board = means(title="Average rating by category"), leaderboard()
    book.history(Gaussian(1, 40), date(2024, 11, 30), "the tables of the annual report")
    for number in range(2):
        book.release(mean_release(mean, number), week(number))
        book.release(leaderboard_release(board, number), week(number))
    book.record(Gaussian(2, 90, 3), "a survey of the same customers")
    book.amend(5, doubled(book.entries[4]), "the bound on rows was not applied to one category")
    book.note("notice", Notice(text="Prices in the shop are in euros since 1 January."))
    text = "In week 2026-W03 the name of one category was misspelt; its numbers are right."
    book.note("notice", Notice(text=text), mean.name)
    book.refuse(board, week(2))
    book.decide("pause", mean.name, "the catalogue is being renamed")
    book.decide("resume", mean.name, "the names are settled")
    book.decide("pause", mean.name, "the rating form is being redesigned")
    book.decide("retire", board.name, "readers found it of no use")
    book.note(
        "audit",
        Audit(
            software=SOFTWARE,
            claimed_epsilon=Decimal("0.4081"),
            measured_epsilon=Decimal("0.2215"),
            delta=Decimal("1e-6"),
            confidence=Decimal("0.95"),
            trials=2000,
        ),
        mean.name,
    )
    return book.account()


def overdrawn(accountant: str = "rdp", threshold_share: str = "0") -> Account:
    """An account of visits that a correction took past its cap."""
    book = Book("visits", "1", accountant, threshold_share)
    job = means(CATEGORIES[:3], "Average stay")
    job = job.model_copy(update={"name": "stays", "dataset": "visits"})
    for number in range(2):
        book.release(mean_release(job, number), week(number))
    book.amend(3, doubled(book.entries[2], 24), "a visitor had up to four cards")
    book.refuse(job, week(2), "account")
    return book.account()


def doubled(entry: Entry, times: int = 2) -> Event:
    """What an entry was charged for, so many times."""
    assert entry.event is not None
    return Composed((event_from_json(entry.event),), times)


def nasty() -> Account:
    """Names that must come out as text, in every place where a name is shown."""
    book = Book("visits", accountant="zcdp")
    title = '<b>Ratings</b> & "more" =1+1'
    book.describe(title="<i>Shop</i>", unit_name="<u>guest</u>", population=20_000)
    book.record(PureDP(1e-3, 5), "<b>trained</b> & \u202emore")
    book.history(PureDP(1e-3), date(2025, 12, 1), "<b>before</b> & \u202emore")
    book.amend(4, PureDP(1e-3, 6), "<b>found</b> & \u202emore")
    book.note("notice", Notice(text="<b>know</b> & \u202emore"))
    book.note("notice", Notice(text="<b>know</b> & \u202emore"), "category-ratings")
    book.decide("pause", "category-ratings", "<b>why</b> & \u202emore")
    book.decide("retire", "top-products", "<b>why</b> & \u202emore")
    mean, board = means(NASTY, title), leaderboard(NASTY, top=8)
    for number in range(2):
        book.release(mean_release(mean, number), week(number))
        book.release(leaderboard_release(board, number), week(number))
    released = next(iter(book.releases))
    book.amend(released, doubled(book.entries[released - 1]), "<b>found</b> & \u202emore")
    return book.account()
