"""One family of errors, each with its exit code.

No message of any of these carries a value taken from private rows: they name the file, the
key, the column or the job, and what to do.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar


class ReleaseError(Exception):
    """A fault that is explained to the user in one message and ends with ``exit_code``."""

    exit_code: ClassVar[int] = 1
    kind: ClassVar[str] = "error"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def document(self) -> dict[str, Any]:
        """The error as commands print it under ``--json``."""
        return {"kind": self.kind, "message": self.message, "hint": self.hint}


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong with one key of one file."""

    file: str
    key: str
    found: str
    allowed: str

    def __str__(self) -> str:
        where = f"{self.file}: {self.key}" if self.key else self.file
        return f"{where}: {self.found}; {self.allowed}"


class ConfigError(ReleaseError):
    """Everything that is wrong with the command line or the project's files, at once."""

    exit_code = 2
    kind = "config"

    def __init__(self, faults: list[Fault]) -> None:
        count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
        super().__init__(
            f"{count} in the project files:\n" + "\n".join(f"  {fault}" for fault in faults),
            hint="Mend the files and run `dp-release check`, which reads no data.",
        )
        self.faults = tuple(faults)

    def document(self) -> dict[str, Any]:
        """The faults one by one beside the message."""
        return {**super().document(), "faults": [asdict(fault) for fault in self.faults]}


class UsageError(ReleaseError):
    """A command line that asks for something that cannot be done as asked."""

    exit_code = 2
    kind = "usage"


class StoppedError(ReleaseError):
    """The user stopped the command. What was released stays; nothing is half-done."""

    exit_code = 130
    kind = "interrupted"


class RefusedError(ReleaseError):
    """The budget does not allow a charge. Nothing was charged."""

    exit_code = 3
    kind = "refused"


class SourceError(ReleaseError):
    """The rows could not be read. Nothing was charged."""

    exit_code = 4
    kind = "source"


class LedgerError(ReleaseError):
    """The ledger is not what its own rules say it must be."""

    exit_code = 5
    kind = "ledger"


class BusyError(ReleaseError):
    """Another process holds the ledger past the bounded wait. Nothing was charged."""

    exit_code = 6
    kind = "busy"


class StorageError(ReleaseError):
    """The ledger's or the site's place cannot be written."""

    kind = "storage"
