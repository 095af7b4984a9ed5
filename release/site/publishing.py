"""Writes a rendered site: each file whole or not at all, and only where its bytes changed."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from release.errors import StorageError

KEPT = (
    "Nothing is lost: the releases are in the ledger. Mend the folder or make room, and run "
    "again: the same numbers are published."
)


def write(files: Mapping[str, bytes], site: Path) -> list[Path]:
    """Puts the changed files in place and returns them.

    Data files come before the pages that link to them, and the index last. Files that are not
    among ``files`` are left alone. Raises ``StorageError`` naming the path that failed; no
    temporary file stays behind.
    """
    written = []
    for name in sorted(files, key=_order):
        path = site / name
        try:
            if _replace(path, files[name]):
                written.append(path)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise StorageError(f"cannot write {path}: {reason}", hint=KEPT) from error
    return written


def _order(name: str) -> tuple[bool, int, str]:
    # Among pages the deepest come first, so the index is the last.
    return (name.endswith(".html"), -len(PurePosixPath(name).parts), name)


def _replace(path: Path, content: bytes) -> bool:
    if path.is_file() and path.read_bytes() == content:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    # In the same folder, so that the last step is one atomic rename; named after the process,
    # so that two builders at once never write into each other's file.
    draft = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        draft.write_bytes(content)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return True


def heads(site: Path) -> dict[str, str]:
    """The hash of the last entry that each account's published record shows.

    A record that cannot be read shows nothing: pages are made anew from the ledger, never the
    other way round.
    """
    found = {}
    for path in sorted(site.glob("accounts/*/ledger.json")):
        try:
            document = json.loads(path.read_bytes())
            found[str(document["account"])] = str(document["head"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return found
