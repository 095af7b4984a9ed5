"""Names that try to be something else come out as text, everywhere."""

from __future__ import annotations

import csv
import io
import json
from decimal import Decimal

import pytest

from release.site import render
from release.specs import Condition, Sum
from tests.site.examples import NASTY, Book, mean_release, means, week, weekly
from tests.site.reading import read
from tests.site.rendered import HOSTILE

FILES = HOSTILE
FOLDERS = [name.removesuffix("/data.csv") for name in FILES if name.endswith("data.csv")]


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_name_is_in_the_table_as_it_is(folder: str) -> None:
    page = read(FILES[f"{folder}/index.html"])
    shown = ["".join(cell.texts) for cell in page.all("table")[0].all("tbody")[0].all("th")]
    assert sorted(shown) == sorted(NASTY)
    assert {row["group"] for row in json.loads(FILES[f"{folder}/release.json"])["rows"]} == set(
        NASTY
    )


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_name_stands_in_an_isolated_run_of_text(folder: str) -> None:
    page = read(FILES[f"{folder}/index.html"])
    (body,) = page.all("body")
    assert any("\u202e" in "".join(each.texts) for each in body.all("bdi"))
    loose = [
        each
        for each in body.all("p", "th", "td", "h1", "li", "a", "strong")
        if "\u202e" in "".join(each.texts) and not each.all("bdi")
    ]
    assert not loose


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".html")])
def test_no_name_becomes_markup(name: str) -> None:
    page = read(FILES[name])
    assert not page.all("script", "img", "i", "u", "b")
    assert "<i>Shop</i>" in page.text()


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_cell_is_a_formula(folder: str) -> None:
    lines = list(csv.reader(io.StringIO(FILES[f"{folder}/data.csv"].decode(), newline="")))
    assert {line[0].removeprefix("'") for line in lines[1:]} == set(NASTY)
    assert not any(cell[:1] in set("=+@\t\r") for line in lines for cell in line)
    assert not any(line[0].startswith("-") for line in lines)


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "＝"])
def test_each_start_of_a_formula_is_neutralised(start: str) -> None:
    release = mean_release(means(("name",)), 0)
    row = release.table.rows[0].model_copy(update={"group": f"{start}1+1"})
    table = release.table.model_copy(update={"rows": (row,)})
    book = Book()
    book.release(release.model_copy(update={"table": table}), week(0))
    content = render([book.account()], templates=None)["jobs/category-ratings/2026-01-05/data.csv"]
    lines = list(csv.reader(io.StringIO(content.decode(), newline="")))
    assert lines[1][0] == f"'{start}1+1"


def test_columns_and_conditions_come_out_as_text_too() -> None:
    columns = ("<b>by</b>", '"><img src=x>')
    where = (Condition(column="<i>c</i>", operator="in", value=NASTY),)
    groups = tuple(zip(NASTY, reversed(NASTY), strict=True))
    statistic = Sum(
        by=columns, groups=groups, where=where, value="<s>v</s>", bounds=(Decimal(0), Decimal(1))
    )
    book = Book("sales", epsilon="3")
    book.describe(unit_name="<u>guest</u>")
    book.publish(weekly("hostile", "Hostile", statistic), {"sum": [0] * len(NASTY)}, week(0))
    files = render([book.account()], templates=None)
    page = read(files["jobs/hostile/2026-01-05/index.html"])
    assert not page.all("script", "img", "i", "u", "b", "s")
    names = ["".join(cell.texts) for cell in page.all("table")[0].all("thead")[0].all("th")]
    assert names[:2] == list(columns)
    rows = page.all("table")[0].all("tbody")[0].all("tr")
    shown = {tuple("".join(cell.texts) for cell in row.all("th")) for row in rows}
    assert shown == set(groups)
    lines = list(csv.reader(io.StringIO(files["jobs/hostile/2026-01-05/data.csv"].decode())))
    assert not any(cell[:1] in set("=+@") for line in lines for cell in line)


def test_no_file_is_named_after_a_group() -> None:
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-./") for name in FILES)
    assert not any(".." in name or name.startswith("/") for name in FILES)


def test_no_page_holds_what_no_page_may_hold() -> None:
    names = ("a\0b", "c\x1bd", "e\x85f", "g\th", "i\nj")
    book, job = Book(), means(names)
    book.release(mean_release(job, 0), week(0))
    book.release(mean_release(job, 1), week(1))
    files = render([book.account()], templates=None)
    for name, content in files.items():
        if name.endswith(".html"):
            held = set(content.decode()) & {chr(code) for code in (*range(32), *range(127, 160))}
            assert held <= {"\n", "\t"}
    page = read(files["jobs/category-ratings/2026-01-12/index.html"])
    assert "a\ufffdb" in page.text()
    document = json.loads(files["jobs/category-ratings/2026-01-12/release.json"])
    assert [row["group"] for row in document["rows"]] == list(names)
