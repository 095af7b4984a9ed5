"""The whole record as one file: written from a ledger, and read back into an empty one.

The file is JSON Lines in canonical JSON. Its first line says what it is. Then comes, account by
account in the order of their names, every entry with exactly what its hash is taken over, its
hash, and the stored result that it paid for. The last line counts the entries and seals all
lines before it, so that a file that was cut short or changed is known for one. Two ledgers with
the same record, in whatever databases, are exported to the same bytes by one version.

It does not hold the accounts' sampling keys: they are never published and the guarantee does not
rest on them. Where the record is brought in, new ones are drawn. That changes which groups the
units of later windows keep under `sample`, and each window has a sample of its own anyway.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, Field, ValidationError

from release import __version__
from release.errors import LedgerError, StorageError, UsageError
from release.ledger import texts
from release.ledger.chain import Content, Line, canonical
from release.ledger.kinds import KINDS
from release.ledger.verification import checked
from release.specs import Spec

MOST_FAULTS = 20
# No database of ours holds a longer text.
LONGEST_LINE = 2**30
LONGEST_HEADER = 2**10

Whole = Annotated[int, Field(ge=0, lt=2**63)]
Document = dict[str, Any]
Hash = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class BrokenExportError(LedgerError):
    """A file that is not an intact export; ``faults`` are (line, what is wrong with it)."""

    kind: ClassVar[str] = "export"

    def __init__(self, file: str, faults: Iterable[tuple[int, str]]) -> None:
        self.faults = tuple(faults)[:MOST_FAULTS]
        listed = "".join(f"\n  line {line}: {what}" for line, what in self.faults)
        super().__init__(
            f"{file}: is not an intact export of a ledger:{listed}",
            hint="Nothing was imported. Export the ledger again, or take a copy that is whole.",
        )

    def document(self) -> dict[str, Any]:
        """The faults one by one beside the message."""
        faults = [{"line": line, "what": what} for line, what in self.faults]
        return {**super().document(), "faults": faults}


@dataclass(frozen=True)
class Summary:
    """How much an export holds; ``sha256`` is over all of its lines but the last."""

    accounts: int
    entries: int
    sha256: str


@dataclass
class AccountCopy:
    """One account's record, row by row: its entries, and the results that releases paid for."""

    lines: list[Line] = field(default_factory=list)
    contents: list[Content] = field(default_factory=list)


@dataclass(frozen=True)
class LedgerCopy:
    """A whole record that was read from the file ``name`` and found intact."""

    name: str
    accounts: Mapping[str, AccountCopy]
    summary: Summary

    def holds(self, account: str, hash_: str) -> bool:
        """Whether an entry of the account has this hash."""
        copy = self.accounts.get(account, AccountCopy())
        return any(line.hash == hash_ for line in copy.lines)


class _Header(Spec):
    what: Literal["dp-release ledger"] = "dp-release ledger"
    format: Literal[1] = 1
    version: str = __version__


class _Seal(Spec):
    entries: Whole
    sha256: Hash


class _Stretch(Spec):
    """The window that an entry settled."""

    kind: str
    first: str
    after: str
    zone: str
    start: str
    end: str


class _Entry(Spec):
    """An entry as it stands in the file: what it is hashed over, its hash, and its result."""

    account: str
    seq: Whole
    kind: str
    job: str | None
    window: _Stretch | None
    charged_at: str
    charge: Whole
    spent: Whole
    delta_charge: Whole
    delta_spent: Whole
    job_spent: Whole
    event: Document | None
    sums: Document
    body: Document
    previous: Hash
    hash: Hash
    release: Document | None

    @classmethod
    def of(cls, line: Line, content: Content | None) -> Self:
        """The entry that a row holds."""
        row = line._asdict()
        window = {name: row.pop(f"window_{name}") for name in _Stretch.model_fields}
        return cls(
            **row
            | {name: _read(row[name]) for name in ("event", "sums", "body")}
            | {"release": _read(content and content.content)},
            window=None if line.window is None else _Stretch(**window),
        )

    def rows(self) -> tuple[Line, Content | None]:
        """The entry as rows hold it."""
        window = self.window and self.window.model_dump()
        row = {
            **self.model_dump(exclude={"window", "release"}),
            **{f"window_{name}": (window or {}).get(name) for name in _Stretch.model_fields},
            "event": None if self.event is None else canonical(self.event),
            "sums": canonical(self.sums),
            "body": canonical(self.body),
        }
        return Line(**row), self._content()

    def _content(self) -> Content | None:
        if self.release is None:
            return None
        if self.window is None or self.job is None:
            raise ValueError("there is a result without its window")
        of = self.window
        return Content(self.seq, self.job, of.kind, of.first, of.after, canonical(self.release))


# ---------------------------------------------------------------------------- out


def write(to: IO[bytes], record: Iterable[tuple[Line, Content | None]]) -> Summary:
    """Writes verified rows as they come: account by account by name, each in its order.

    Raises StorageError where the file cannot be written.
    """
    seal, accounts, entries = hashlib.sha256(), 0, 0
    header = _written(_Header())
    seal.update(header)
    _put(to, header)
    for line, content in record:
        written = _written(_Entry.of(line, content))
        seal.update(written)
        _put(to, written)
        accounts += line.seq == 1
        entries += 1
    _put(to, _written(_Seal(entries=entries, sha256=seal.hexdigest())))
    return Summary(accounts, entries, seal.hexdigest())


def paired(
    lines: Iterable[Line], contents: Iterable[Content]
) -> Iterator[tuple[Line, Content | None]]:
    """Each entry's row with that of its result, of an account that was found intact."""
    remaining = iter(contents)
    content = next(remaining, None)
    for line in lines:
        if content is None or content.seq != line.seq:
            yield line, None
        else:
            yield line, content
            content = next(remaining, None)


@contextmanager
def new_file(path: Path) -> Iterator[IO[bytes]]:
    """A file for its owner alone, in place whole or not at all.

    Raises UsageError where something is there already: it may be the only copy of another record.
    """
    taken = UsageError(f"{path}: is there already", hint="Name a file that is not there yet.")
    try:
        # The link below decides; who asks in vain should not wait for the whole record.
        if path.exists():
            raise taken
        with TemporaryDirectory(prefix=".export-", dir=path.parent) as folder:
            draft = Path(folder, "draft")
            draft.touch(0o600)
            with draft.open("wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            path.hardlink_to(draft)
    except FileExistsError:
        raise taken from None
    except OSError as error:
        raise _unwritten(str(path), error) from None


def _written(document: BaseModel) -> bytes:
    return f"{canonical(document.model_dump())}\n".encode()


def _read(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def _put(to: IO[bytes], line: bytes) -> None:
    try:
        to.write(line)
    except OSError as error:
        raise _unwritten("the export", error) from None


def _unwritten(name: str, error: OSError) -> StorageError:
    return StorageError(
        f"{name}: cannot be written ({error.strerror or type(error).__name__})",
        hint="Name a file in a folder that you may write to, on a disk with room.",
    )


# ---------------------------------------------------------------------------- in


def read(file: IO[bytes], name: str) -> LedgerCopy:
    """The record that a file holds, once every line and the whole of it is found intact.

    Raises BrokenExportError with what is wrong.
    """
    found = _Reading()
    header = file.readline(LONGEST_HEADER)
    if problem := _misread(_Header, header):
        raise BrokenExportError(name, [(1, f"is not the first line of an export: {problem}")])
    found.seal.update(header)
    for number, line, last in _lines(file):
        if last:
            found.end(number, line)
        else:
            found.add(number, line)
        if len(found.faults) >= MOST_FAULTS:
            break
    if not found.faults:
        found.verify()
    if found.faults:
        raise BrokenExportError(name, found.faults)
    return LedgerCopy(name, found.accounts, found.summary)


@dataclass
class _Reading:
    """What the lines so far have said, and what is wrong with them."""

    accounts: dict[str, AccountCopy] = field(default_factory=dict)
    begins: dict[str, int] = field(default_factory=dict)
    """The line of each account's first entry."""
    entries: int = 0
    seal: Any = field(default_factory=hashlib.sha256)
    faults: list[tuple[int, str]] = field(default_factory=list)

    @property
    def summary(self) -> Summary:
        return Summary(len(self.accounts), self.entries, self.seal.hexdigest())

    def add(self, number: int, written: bytes) -> None:
        self.seal.update(written)
        self.entries += 1
        try:
            line, content = _parsed(written)
        except ValueError as error:
            self.faults.append((number, str(error)))
            return
        current = next(reversed(self.accounts), "")
        if line.account < current:
            self.faults.append((number, f"account {line.account!r} comes after {current!r}"))
            return
        copy = self.accounts.setdefault(line.account, AccountCopy())
        self.begins.setdefault(line.account, number)
        copy.lines.append(line)
        if content is not None:
            copy.contents.append(content)

    def end(self, number: int, line: bytes) -> None:
        if problem := _misread(_Seal, line):
            what = "is not the last line of an export, which was cut or goes on after its end"
            self.faults.append((number, f"{what}: {problem}"))
            return
        seal = _Seal.model_validate_json(line)
        if not self.entries:
            self.faults.append((number, "there is no entry before it"))
        elif seal.entries != self.entries:
            what = f"counts {seal.entries} entries, and {self.entries} stand before it"
            self.faults.append((number, what))
        elif seal.sha256 != self.seal.hexdigest():
            self.faults.append((number, "a line before it was changed: their SHA-256 is another"))

    def verify(self) -> None:
        for name, copy in self.accounts.items():
            for one in islice(checked(name, copy.lines, copy.contents), MOST_FAULTS):
                place = next((i for i, line in enumerate(copy.lines) if line.seq == one.seq), 0)
                self.faults.append((self.begins[name] + place, str(one)))


def _lines(file: IO[bytes]) -> Iterator[tuple[int, bytes, bool]]:
    """The lines after the first with their numbers, and whether each is the last.

    Where there is none, one that is empty is the last.
    """
    number, line = 2, file.readline(LONGEST_LINE)
    while True:
        after = file.readline(LONGEST_LINE)
        yield number, line, not after
        if not after:
            return
        number, line = number + 1, after


def _parsed(written: bytes) -> tuple[Line, Content | None]:
    """An entry's rows; raises ValueError with what is wrong with the line."""
    try:
        found = _Entry.model_validate_json(written)
        canonically = _written(found)
        line, content = found.rows()
    except ValidationError as error:
        raise ValueError(_first_problem(error)) from None
    if canonically != written:
        raise ValueError("is not written as an export is: in canonical JSON, ended by a newline")
    said = texts.body(line.kind, line.body) if line.kind in KINDS else None
    if said and canonical(said.model_dump(mode="json", exclude_unset=True)) != line.body:
        raise ValueError(f"its body is not written as that of a {line.kind} is")
    return line, content


def _misread(model: type[BaseModel], line: bytes) -> str | None:
    """What keeps a line from being the canonical form of the model."""
    try:
        found = model.model_validate_json(line)
    except ValidationError as error:
        return _first_problem(error)
    return None if _written(found) == line else "it is not in canonical JSON"


def _first_problem(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    if first["type"] == "extra_forbidden":
        return "holds a key that an export does not"  # another file's keys may be private
    where = ".".join(map(str, first["loc"]))
    return f"{where}: {first['msg']}" if where else str(first["msg"])
