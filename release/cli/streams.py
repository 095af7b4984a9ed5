"""The standard streams, and what becomes of a command that can no longer write to one.

A command's words must not decide over what it does: a release that is half-way written is written
to its end, whoever has stopped listening. So a stream's first failure is remembered and what
comes after goes nowhere; ``Output.code`` is the one place that says so in the end.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

from release.cli.words import cause
from release.errors import ReleaseError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

CLOSED_PIPE = 141
"""What a shell says of a program that a closed pipe ended: 128 and the number of SIGPIPE."""
KEPT = "whatever this command wrote to the ledger is kept there"
# Neither is changed by what became of the words: who stopped it, and a ledger that is not intact.
STRONGER = (5, 130)


class OutputError(ReleaseError):
    """Standard output has failed, which ``Output`` remembers; nothing is to be said of it yet."""


class Stream(io.FileIO):
    """A standard stream whose failing stops nothing."""

    failure: OSError | None = None

    def write(self, data: ReadableBuffer, /) -> int:
        """Writes what it can; all, as far as the caller can tell."""
        if self.failure is None:
            try:
                written = super().write(data)
                if written is None:  # where somebody made the stream one that does not wait
                    raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            except OSError as error:
                self.failure = error
                self.failed()
            else:
                return written
        return memoryview(data).nbytes

    def failed(self) -> None:
        """What the first failure leads to."""


class Output(Stream):
    """Standard output: its first failure ends what was being written, such as a long export."""

    def failed(self) -> None:
        """Raises OutputError: what handles errors of the operating system must not take it."""
        raise OutputError("standard output cannot be written") from None

    def code(self, code: int) -> int:
        """The exit code of a command that would else end with ``code``, once all is written.

        A reader who went away has seen enough, which needs no word.
        """
        with suppress(OutputError):
            sys.stdout.flush()
        if self.failure is None:
            return code
        if isinstance(self.failure, BrokenPipeError):
            return code or CLOSED_PIPE
        said = f"standard output cannot be written ({cause(self.failure)}); {KEPT}"
        print(f"dp-release: {said}", file=sys.stderr)
        return code if code in STRONGER else ReleaseError.exit_code


def take_over() -> Output:
    """Puts such streams in the place of both; gives that of standard output."""
    output = Output(_descriptor(sys.stdout), "w", closefd=False)
    sys.stdout = _text(output, sys.stdout)
    sys.stderr = _text(Stream(_descriptor(sys.stderr), "w", closefd=False), sys.stderr)
    return output


def _descriptor(stream: TextIO | None) -> int:
    if stream is not None:
        return stream.fileno()
    # Closed from the start. Nothing can be written to this, and no file that is opened later, such
    # as the ledger, gets the number under which others write to the standard stream.
    return os.open(os.devnull, os.O_RDONLY)


def _text(raw: Stream, before: TextIO | None) -> TextIO:
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding="utf-8" if before is None else before.encoding,
        # A terminal that cannot show ε gets its code: words must not fail what was done.
        errors="backslashreplace",
        line_buffering=True,
    )
