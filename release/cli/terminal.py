"""How a run shows its progress, a bar on a terminal and plain lines elsewhere, and is stopped."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from release.pipeline import Settled

STOPPING = b"Stopping after this window; interrupt again to stop at once.\n"


@contextmanager
def progress(total: int, *, quiet: bool) -> Iterator[Callable[[Settled], None]]:
    """Takes each settled window, and shows it on standard error unless ``quiet``.

    After an interrupt the next settled window raises KeyboardInterrupt; a second interrupt
    does so at once.
    """
    with _interrupts(quiet=quiet) as check, _shown(total, quiet=quiet) as show:

        def seen(settled: Settled) -> None:
            show(settled)
            check()

        yield seen
        check()


@contextmanager
def _interrupts(*, quiet: bool) -> Iterator[Callable[[], None]]:
    # An exception that came in the middle of an engine's work would be swallowed there at
    # times, or come back as an error of the engine's own.
    caught: list[int] = []

    def first(number: int, _frame: object) -> None:
        caught.append(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if not quiet:
            os.write(2, STOPPING)  # a stream might be in the middle of a write

    def check() -> None:
        if caught:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, first)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _shown(total: int, *, quiet: bool) -> Iterator[Callable[[Settled], None]]:
    if quiet or not total:
        yield lambda _: None
    elif not sys.stderr.isatty():
        yield lambda settled: print(line(settled), file=sys.stderr)
    else:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("", total=total)
            yield lambda settled: bar.update(task, advance=1, description=line(settled))


def line(settled: Settled) -> str:
    """One settled window in words."""
    window = settled.window
    name = window.label if window.label == window.name else f"{window.label} ({window.name})"
    return f"{settled.status:<9} {name:<21} {settled.job}"
