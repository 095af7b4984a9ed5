"""How a run shows its progress: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from release.pipeline import Settled


@contextmanager
def progress(total: int, *, quiet: bool) -> Iterator[Callable[[Settled], None]]:
    """Shows each settled window on standard error; ``quiet`` shows nothing."""
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

            def seen(settled: Settled) -> None:
                bar.update(task, advance=1, description=line(settled))

            yield seen


def line(settled: Settled) -> str:
    """One settled window in words."""
    return f"{settled.status:<9} {settled.window.label:<10} {settled.job}"
