"""Makes the golden ledger of the newest format: ``python -m tests.ledger.golden.make``, once."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from datetime import date
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

from release.accounting import Composed, Gaussian, GaussianThreshold, Laplace, PoissonGaussian
from release.ledger.kinds import KINDS, Audit, Decision, History, Notice
from release.ledger.records import Software, Terms
from release.ledger.schema import FORMAT
from release.ledger.store import Ledger
from release.ledger.writing import Writer
from release.noise import gaussian
from release.pipeline import plan, settle
from release.windows import Window
from tests.ledger.examples import ABOUT, NOW, exact, funded, job, week
from tests.ledger.places import SQLite
from tests.ledger.test_upgrade import GOLDEN, held


def named(account: str, terms: Terms, **changes: object) -> Terms:
    return terms.model_copy(update={"account": account, **changes})


def released(found: Ledger, terms: Terms, name: str, *windows: Window) -> None:
    planned = plan(job(name, releases=2, share="0.25"), terms)
    for window in windows:
        settle(found, planned, window, exact, sampler=gaussian, now=NOW)


def say(writer: Writer) -> None:
    """One entry of each kind that charges nothing, and a job for each decision."""
    software = Software(name="dp-release", version="0.2.0")
    audit = Audit(
        software=software,
        claimed_epsilon=Decimal("0.43"),
        measured_epsilon=Decimal("0.0125"),
        delta=Decimal("1e-6"),
        confidence=Decimal("0.999"),
        trials=20000,
    )
    writer.note("notice", Notice(text="Tea was counted twice until “März”."), NOW)
    writer.note("notice", Notice(text='An erratum: <b>not</b> "bold" \\ 茶.'), NOW, job="board")
    writer.note("pause", Decision(reason="the source moves"), NOW, job="board")
    writer.note("resume", Decision(reason="it has moved"), NOW, job="board")
    writer.note("pause", Decision(reason="and again"), NOW, job="board")
    writer.note("retire", Decision(reason="nobody read it"), NOW, job="mean")
    writer.note("audit", audit, NOW, job="mean")


def fill(found: Ledger) -> None:
    """Every kind of entry, on every accountant; one account overdrawn, one replaced."""
    visits = named("visits", funded("gdp", "1", "0.25"))
    found.open_account(visits, ABOUT, NOW)
    released(found, visits, "board", week(0), week(1))
    released(found, visits, "mean", week(0), week(1), week(2))
    found.describe("visits", ABOUT.model_copy(update={"title": "Élan <&> 'é'"}), NOW)
    with found.writing("visits") as writer:
        writer.record(GaussianThreshold(3, 300, 1e-9), "a list of new groups", NOW)
        spent = History(date=date(2019, 2, 28), description="a survey, on paper")
        writer.remember([(spent, Gaussian(1, 40, 2))], NOW)
        writer.amend(3, Composed((Gaussian(2**22, 2**25),)), "rows were bounded too late", NOW)
        writer.amend(writer.head.last.seq - 1, Gaussian(1, 39, 2), "one person twice", NOW)
        say(writer)

    small = named("small", funded("zcdp", "0.5"))
    found.open_account(small, ABOUT, NOW)
    with found.writing("small") as writer:
        writer.record(Laplace(1, 50), "a count", NOW)
        writer.amend(3, Laplace(1, 2), "its scale was 2, not 50", NOW)

    learnt = named("learnt", funded("rdp", "4"), time_zone="America/New_York")
    found.open_account(learnt, ABOUT, NOW)
    with found.writing("learnt") as writer:
        writer.record(PoissonGaussian(0.01, 1.1, 100), "taste model", NOW)
        writer.note("retire", Decision(reason="trained"), NOW, job="taste")
    heir = named("learnt-2027", funded("rdp", "6"), replaces="learnt")
    found.open_account(heir, ABOUT, NOW)


def main() -> None:
    made = GOLDEN / f"format-{FORMAT}.db"
    if made.exists():
        raise SystemExit(f"{made} is there: a golden ledger is what was written at its time")
    with TemporaryDirectory() as folder:
        place = SQLite(Path(folder))
        with closing(place.ledger()) as found:
            fill(found)
            entries = held(found)
        assert {entry["kind"] for entry in entries} == set(KINDS)
        # A file whose log was never written back would be without its last entries.
        assert place.sql("PRAGMA wal_checkpoint(TRUNCATE)")[0]["busy"] == 0
        shutil.copyfile(place.path, made)
    lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries)
    made.with_suffix(".json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
