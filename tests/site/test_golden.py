"""Committed pages. ``make golden`` writes them anew, and the review reads the difference."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from release.site import render
from tests.site.examples import shop

# One worker: the first test writes what the others read.
pytestmark = pytest.mark.xdist_group("golden-site")
GOLDEN = Path(__file__).parent / "golden"
FILES = {
    name: content
    for name, content in render([shop(2, 1)], templates=None).items()
    if "2026-01-05" not in name
}


def test_the_site_is_the_committed_one() -> None:
    if os.environ.get("DP_RELEASE_GOLDEN"):
        for name, content in FILES.items():
            (GOLDEN / name).parent.mkdir(parents=True, exist_ok=True)
            (GOLDEN / name).write_bytes(content)
        for path in GOLDEN.rglob("*"):
            if path.is_file() and path.relative_to(GOLDEN).as_posix() not in FILES:
                path.unlink()
    assert {p.relative_to(GOLDEN).as_posix() for p in GOLDEN.rglob("*") if p.is_file()} == set(
        FILES
    )


@pytest.mark.parametrize("name", sorted(FILES))
def test_each_page_is_the_committed_one(name: str) -> None:
    assert (GOLDEN / name).read_bytes() == FILES[name]
