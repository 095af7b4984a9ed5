"""The pages of the examples, rendered once, and what is read from them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from release.site import render
from tests.site.examples import eventful, nasty, overdrawn, sales, shop
from tests.site.reading import read

# Each costs every worker half a second at its start, for the templates are compiled again.
SHOP = render([shop()], templates=None)
SALES = render([sales()], templates=None)
HOSTILE = render([nasty()], templates=None)
EVENTFUL, OVERDRAWN = eventful(), overdrawn()
AFTERWARDS = render([EVENTFUL, OVERDRAWN], templates=None)
MEAN = "jobs/category-ratings/2026-03-02"
BOARD = "jobs/top-products/2026-03-02"


def words(name: str, files: dict[str, bytes] = SHOP) -> str:
    return read(files[name]).all("main")[0].text()


def cells(content: bytes) -> Iterator[dict[str, str]]:
    return csv.DictReader(io.StringIO(content.decode(), newline=""))
