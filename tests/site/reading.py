"""Reads rendered pages as a browser does: elements, text and tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

BLOCKS = {"p", "dt", "dd", "small", "td", "th", "li", "h1", "h2", "h3", "caption"}
VOID = {"meta", "link", "br", "wbr", "img", "hr", "input"}


@dataclass
class Element:
    tag: str
    attrs: dict[str, str]
    parent: Element | None = None
    children: list[Element] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def all(self, *tags: str) -> list[Element]:
        found = [self] if self.tag in tags else []
        return found + [each for child in self.children for each in child.all(*tags)]

    def text(self) -> str:
        return " ".join("".join(self.texts).split())

    def within(self, tag: str) -> bool:
        return self.parent is not None and (self.parent.tag == tag or self.parent.within(tag))


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = self.here = Element("", {})

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in BLOCKS:
            self.handle_data(" ")
        element = Element(tag, {name: value or "" for name, value in attrs}, self.here)
        self.here.children.append(element)
        if tag not in VOID:
            self.here = element

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs}, self.here)
        self.here.children.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self.here.tag == tag, f"</{tag}> closes <{self.here.tag}>"
        assert self.here.parent is not None
        self.here = self.here.parent
        if tag in BLOCKS:
            self.handle_data(" ")

    def handle_data(self, data: str) -> None:
        here: Element | None = self.here
        while here is not None:
            here.texts.append(data)
            here = here.parent


def read(page: bytes) -> Element:
    """The page's elements; a tag that is not closed where it should be fails."""
    reader = _Reader()
    reader.feed(page.decode())
    reader.close()
    assert reader.here is reader.root, f"<{reader.here.tag}> stays open"
    return reader.root


def table(page: Element, index: int = 0) -> list[dict[str, str]]:
    """A table of the page, its numbers as the ``data`` elements hold them."""
    first = page.all("table")[index]
    names = [cell.text() for cell in first.all("thead")[0].all("th")]
    rows = []
    for row in first.all("tbody")[0].all("tr"):
        cells = row.all("td", "th")
        assert len(cells) == len(names)
        values = [
            data[0].attrs["value"] if (data := cell.all("data")) else cell.text() for cell in cells
        ]
        rows.append(dict(zip(names, values, strict=True)))
    return rows
