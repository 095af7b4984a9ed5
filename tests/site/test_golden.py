"""Committed pages. ``make golden`` writes them anew, and the review reads the difference."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from release.site import render
from tests.site.examples import eventful, found, overdrawn, sales

GOLDEN = Path(__file__).parent / "golden"
# Of each statistic one week is enough, but for those of an account that was overdrawn.
LEFT_OUT = tuple(
    f"jobs/{name}"
    for name in (
        "category-ratings/2026-01-05",
        "top-products/2026-01-12",
        "sales-by-region/2026-01-05",
        "customers/2026-01-05",
        "best-rated/2026-01-05",
        "most-visited/2026-01-05",
    )
)
FILES = {
    name: content
    for name, content in render(
        [eventful(), overdrawn(), sales(), found()], templates=None
    ).items()
    if not name.startswith(LEFT_OUT)
}


@pytest.mark.parametrize("name", sorted(FILES))
def test_each_page_is_the_committed_one(name: str, golden: Callable[[Path, bytes], None]) -> None:
    golden(GOLDEN / name, FILES[name])


def test_no_other_page_is_committed(request: pytest.FixtureRequest) -> None:
    found = {path.relative_to(GOLDEN).as_posix(): path for path in GOLDEN.rglob("*.*")}
    if request.config.getoption("--golden"):
        for name in found.keys() - FILES.keys():
            found.pop(name).unlink()
    assert found.keys() == FILES.keys()
