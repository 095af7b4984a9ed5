"""Public lists of groups, as a job writes them: a list, a file, or one of these for each column.

Groups are published as they are listed, and quoted by faults, so no list is taken from a file
that holds private rows.
"""

from __future__ import annotations

import csv
import io
import itertools
import math
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from release.specs import MAX_GROUPS


@dataclass(frozen=True)
class Lists:
    """Where lists may be read from: a project's folder, but for the sources of its datasets."""

    folder: Path
    private: Collection[Path]

    def groups(self, written: Any, by: Any) -> tuple[Any, str | None]:
        """The groups that ``written`` stands for, and the files that they came from.

        What is no file and no table of lists is given back as it is. Raises ValueError with what
        is wrong.
        """
        columns = by if isinstance(by, list | tuple) else [by]
        if isinstance(written, str):
            return self._file(written, columns), written
        if isinstance(written, Mapping):
            return self._product(written, columns)
        return written, None

    def _product(self, lists: Mapping[str, Any], columns: Sequence[Any]) -> tuple[Any, str | None]:
        if len(columns) < 2:
            raise ValueError("a table of lists is for several columns, and `by` names one")
        for name in columns:
            if name not in list(lists):
                raise ValueError(f"the table of lists has none for {name!r} of `by`")
        for name in lists:
            if name not in columns:
                raise ValueError(f"the table of lists has one for {name!r}, which `by` is without")
        if not all(isinstance(names, list | str) for names in lists.values()):
            raise ValueError("the table of lists holds something that is no list")
        found = [self.groups(lists[name], name) for name in columns]
        each = [names for names, _ in found]
        size = math.prod(map(len, each))
        if size > MAX_GROUPS:
            raise ValueError(f"the lists together make {size} groups, more than {MAX_GROUPS}")
        files = [file for _, file in found if file is not None]
        return list(itertools.product(*each)), ", ".join(files) or None

    def _file(self, name: str, columns: Sequence[Any]) -> list[Any]:
        path = self.folder / name
        if Path(os.path.realpath(path)) in self.private:
            raise ValueError(f"{path.name!r} is the source of a dataset, whose rows are private")
        if path.suffix not in {".txt", ".csv"}:
            raise ValueError(f"{path.name!r} is neither a .txt nor a .csv file")
        if path.suffix == ".txt" and len(columns) > 1:
            raise ValueError(f"{path.name!r} has one name a line, and `by` names {len(columns)}")
        try:
            text = path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError:
            raise ValueError(f"{path.name!r} is not UTF-8 text") from None
        except OSError:
            raise ValueError(f"{name!r} cannot be read") from None
        names = _lines(text) if path.suffix == ".txt" else _cells(text, path.name, columns)
        if not names:
            raise ValueError(f"{path.name!r} holds no name")
        return names


def _lines(text: str) -> list[Any]:
    return [line for line in text.split("\n") if line.strip()]


def _cells(text: str, name: str, columns: Sequence[Any]) -> list[Any]:
    try:
        header, *rows = list(csv.reader(io.StringIO(text, newline=""))) or [[]]
    except csv.Error:
        raise ValueError(f"{name!r} is not CSV") from None
    # A file of one column is that of the names, whatever it is called.
    if len(columns) == len(header) == 1:
        columns = header
    for column in columns:
        if header.count(column) != 1:
            many = "several columns" if column in header else "no column"
            raise ValueError(f"{name!r} has {many} {column!r}")
    places = [header.index(column) for column in columns]
    written = [row for row in rows if row]
    if any(len(row) <= max(places) for row in written):
        raise ValueError(f"{name!r} has a line that ends before its last name")
    found = [tuple(row[place] for place in places) for row in written]
    return found if len(places) > 1 else [key[0] for key in found]
