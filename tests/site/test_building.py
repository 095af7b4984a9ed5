"""The site on disk: whole files, only what changed, and faults that publish nothing."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from release import shipped
from release.errors import ConfigError, StorageError
from release.site import build, render
from tests.site.examples import shop

SHORT = [shop(2, 0)]


def tree(site: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(site)): path.read_bytes()
        for path in site.rglob("*")
        if path.is_file()
    }


def test_what_is_built_is_what_is_rendered(tmp_path: Path) -> None:
    written = build(SHORT, tmp_path / "site", templates=None)
    assert tree(tmp_path / "site") == render(SHORT, templates=None)
    assert sorted(written) == sorted(p for p in (tmp_path / "site").rglob("*") if p.is_file())


def test_data_comes_before_pages_and_the_index_last(tmp_path: Path) -> None:
    written = [str(path.relative_to(tmp_path)) for path in build(SHORT, tmp_path, templates=None)]
    assert written[-1] == "index.html"
    pages = [name.endswith(".html") for name in written]
    assert pages == sorted(pages)


def test_only_what_changed_is_written(tmp_path: Path) -> None:
    build(SHORT, tmp_path, templates=None)
    assert build(SHORT, tmp_path, templates=None) == []
    changed = tmp_path / "jobs/top-products/2026-01-05/data.csv"
    changed.write_bytes(b"other")
    assert build(SHORT, tmp_path, templates=None) == [changed]


def test_an_old_release_stays_as_it_is_when_another_follows(tmp_path: Path) -> None:
    build([shop(3, 0)], tmp_path, templates=None)
    written = build([shop(4, 0)], tmp_path, templates=None)
    touched = {path.parent.name for path in written if "jobs" in path.parts}
    # The new week, and the link to it from the week before.
    assert touched == {"2026-01-26", "2026-01-19", "category-ratings", "top-products"}


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "CNAME").write_text("example.org")
    build(SHORT, tmp_path, templates=None)
    assert (tmp_path / "CNAME").read_text() == "example.org"


def test_pages_can_be_read_by_a_web_server(tmp_path: Path) -> None:
    build(SHORT, tmp_path, templates=None)
    plain = tmp_path / "plain"
    plain.touch()
    assert (tmp_path / "index.html").stat().st_mode == plain.stat().st_mode


@contextmanager
def no_file_larger_than(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_disk_that_fills_up_leaves_whole_files_only(tmp_path: Path) -> None:
    build([shop(1, 0)], tmp_path, templates=None)
    before = tree(tmp_path)
    after = render(SHORT, templates=None)
    with no_file_larger_than(9_000), pytest.raises(StorageError) as caught:
        build(SHORT, tmp_path, templates=None)
    assert str(tmp_path) in caught.value.message
    assert "File too large" in caught.value.message
    assert "Nothing is lost" in caught.value.hint
    for name, content in tree(tmp_path).items():
        assert content in (before.get(name), after.get(name))
    assert tree(tmp_path)["index.html"] == before["index.html"]
    build(SHORT, tmp_path, templates=None)
    assert tree(tmp_path) == after


def test_a_site_that_is_no_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "site").write_text("a file")
    with pytest.raises(StorageError, match=str(tmp_path / "site")):
        build(SHORT, tmp_path / "site", templates=None)


def test_a_folder_where_a_page_belongs_is_named(tmp_path: Path) -> None:
    (tmp_path / "index.html").mkdir()
    with pytest.raises(StorageError, match=r"index\.html: Is a directory"):
        build(SHORT, tmp_path, templates=None)
    assert not list(tmp_path.rglob("*.new"))


@pytest.mark.parametrize(
    ("text", "line", "found"),
    [
        ("one\n{{ page.rows }}\n", 2, "has no attribute 'rows'"),
        ("\n\n{{ nothing }}", 3, "'nothing' is undefined"),
        ("{% if %}", 1, "Expected an expression"),
        ("\n{{ page.jobs / 2 }}", 2, "unsupported operand"),
        ('{% include "missing.html" %}', 1, "no such template: missing.html"),
    ],
)
def test_a_fault_in_a_template_names_the_line_and_publishes_nothing(
    tmp_path: Path, text: str, line: int, found: str
) -> None:
    own = tmp_path / "templates"
    own.mkdir()
    (own / "index.html").write_text(text)
    with pytest.raises(ConfigError) as caught:
        build(SHORT, tmp_path / "site", templates=own)
    (fault,) = caught.value.faults
    assert (fault.file, fault.key) == (str(own / "index.html"), f"line {line}")
    assert found in fault.found
    assert not (tmp_path / "site").exists()


def test_a_template_that_is_not_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "job.html").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError) as caught:
        render(SHORT, templates=tmp_path)
    assert caught.value.faults[0].file == "job.html"


def test_a_style_sheet_cannot_leave_its_element(tmp_path: Path) -> None:
    (tmp_path / "style.css").write_text("a {} </style><script>")
    with pytest.raises(ConfigError, match=r"style\.css"):
        render(SHORT, templates=tmp_path)


def test_a_project_replaces_one_block_and_keeps_the_rest(tmp_path: Path) -> None:
    (tmp_path / "release.html").write_text(
        '{% extends "shipped/release.html" %}\n'
        "{% block meaning %}<p>Ours: {{ unit }}</p>{% endblock %}"
    )
    files = render(SHORT, templates=tmp_path)
    usual = render(SHORT, templates=None)
    name = "jobs/category-ratings/2026-01-05/index.html"
    assert b"<p>Ours: customer</p>" in files[name]
    assert b"What is promised" in files[name]
    assert {name for name in files if files[name] != usual[name]} == {
        name for name in files if name.count("/") == 3 and name.endswith(".html")
    }


def test_a_folder_without_templates_changes_nothing(tmp_path: Path) -> None:
    assert render(SHORT, templates=tmp_path / "none") == render(SHORT, templates=None)


def test_line_ends_of_a_style_sheet_do_not_matter(tmp_path: Path) -> None:
    text = (shipped.folder() / "templates/style.css").read_bytes()
    (tmp_path / "style.css").write_bytes(text.replace(b"\n", b"\r\n"))
    assert render(SHORT, templates=tmp_path) == render(SHORT, templates=None)
