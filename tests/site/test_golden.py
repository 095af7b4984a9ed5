"""Committed pages. ``make golden`` writes them anew, and the review reads the difference."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from release.site import render
from tests.site.examples import eventful, overdrawn

# One worker: the last test looks at what the others write.
pytestmark = pytest.mark.xdist_group("golden-site")
GOLDEN = Path(__file__).parent / "golden"
# Of each statistic of the first account one week is enough.
FILES = {
    name: content
    for name, content in render([eventful(), overdrawn()], templates=None).items()
    if not name.startswith(("jobs/category-ratings/2026-01-05", "jobs/top-products/2026-01-12"))
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
