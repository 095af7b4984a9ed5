"""How far released means are from the exact ones, for dp-release and for its peers.

Run as ``python -m benchmarks.accuracy [--quick] [--environments DIR] [DATASET…]``. It prints the
tables of docs/accuracy.md, which says what is compared and what is not fair to whom. Each peer
runs in a virtual environment of its own, made on the first run; one that cannot be had is left
out, with the reason.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.datasets import DATASETS, AbsentError, Dataset
from benchmarks.peers.task import Task
from release import __version__

SCRIPTS = Path(__file__).parent / "peers"
MINUTES_TO_INSTALL = 10
HOURS_TO_MEASURE = 2
GOAL = 0.6


class Sizes(NamedTuple):
    rows: int
    repetitions: dict[str, int]
    """Releases at least, for each bound on a unit's rows in a category; R = 5 is what is asked."""
    seconds: float
    """Releases go on for so long where they are cheap."""


FULL = Sizes(1_000_000, {"5": 10, "1": 4}, seconds=60)
QUICK = Sizes(100_000, {"5": 3, "1": 3}, seconds=0)


@dataclass(frozen=True)
class Product:
    name: str
    script: str
    requirements: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        version = self.requirements[0].partition("==")[2] if self.requirements else __version__
        return f"{self.name} {version}"


OWN = Product("dp-release", "on_dp_release.py")
PEERS = (
    Product("PyDP", "on_pydp.py", ("python-dp==1.1.5", "pandas", "pyarrow")),
    Product("OpenDP", "on_opendp.py", ("opendp[polars]==0.16.0", "pandas", "pyarrow")),
    Product("SmartNoise SQL", "on_smartnoise.py", ("smartnoise-sql==1.0.10", "pyarrow")),
    Product("PipelineDP", "on_pipelinedp.py", ("pipeline-dp==0.3.1", "pandas", "pyarrow")),
    Product("Tumult Analytics", "on_tumult.py", ("tmlt-analytics==0.21.0", "pyarrow"), ("java",)),
)


class UnavailableError(Exception):
    """A peer that cannot be measured on this machine, and why."""


class Way(NamedTuple):
    """One line of the table: a product, how it was used, and R."""

    product: str
    how: str
    most: int


class Score(NamedTuple):
    error: float
    """Root mean square over releases and categories."""
    deviation: float
    """The standard error of it."""
    random: float
    """The part of it that differs from release to release: noise, and a choice of rows."""
    releases: int
    unanswered: float
    """Categories without a value in a release, on average."""
    seconds: float
    """The median release."""


class Parts(NamedTuple):
    """The root-mean-square errors of which a release's own is made."""

    bounding: float
    sampling: float
    noise: float


@dataclass
class Answers:
    """What the products answered about one data set."""

    dataset: Dataset
    lines: dict[Way, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    notes: list[str] = field(default_factory=list)

    def errors(self, answers: Iterable[Sequence[float | None]]) -> NDArray[Any]:
        """One row a release: how far each category's answer is from the exact mean.

        Every answer is first moved into the bounds, as anyone may who reads it; where there is
        none, the middle of the bounds stands in.
        """
        off: NDArray[Any] = self.within(answers) - np.array(self.dataset.means())
        return off

    def within(self, answers: Iterable[Sequence[float | None]]) -> NDArray[Any]:
        given = np.array(list(answers), dtype=float)
        lower, upper = self.dataset.lower, self.dataset.upper
        whole: NDArray[Any] = np.where(np.isnan(given), (lower + upper) / 2, given)
        return whole.clip(lower, upper)


def environment(folder: Path, peer: Product) -> Path:
    """The Python of the peer's own environment, made if it is not there or of other versions."""
    for program in peer.programs:
        if shutil.which(program) is None:
            raise UnavailableError(f"{program} is not on this machine")
    home = folder / peer.script.removeprefix("on_").removesuffix(".py")
    python, stamp = home / "bin" / "python", home / "requirements.txt"
    wanted = "\n".join(peer.requirements)
    if stamp.is_file() and stamp.read_text() == wanted:
        return python
    run([sys.executable, "-m", "venv", "--clear", str(home)], minutes=MINUTES_TO_INSTALL)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run([*pip, *peer.requirements], minutes=MINUTES_TO_INSTALL)
    stamp.write_text(wanted)
    return python


def run(command: Sequence[str], *, minutes: float) -> None:
    # Spark starts its workers with what this names.
    own = {**os.environ, "PYSPARK_PYTHON": command[0]}
    try:
        done = subprocess.run(
            command, timeout=60 * minutes, capture_output=True, text=True, env=own, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise UnavailableError(f"not done within {minutes} minutes") from error
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["no reason given"]
        raise UnavailableError(said[-1])


def ask(answers: Answers, product: Product, python: Path, task: Task) -> None:
    """Has a product measured in a process of its own, and takes in what it answered."""
    written = Path(task.answers)
    written.unlink(missing_ok=True)
    paper = written.with_suffix(".task.json")
    task.write(paper)
    try:
        run(
            [str(python), str(SCRIPTS / product.script), str(paper)], minutes=60 * HOURS_TO_MEASURE
        )
    except UnavailableError as error:
        answers.notes.append(f"{product.title} stopped: {error}")
    for text in written.read_text().splitlines() if written.exists() else []:
        line = json.loads(text)
        way = Way(product.title, line["way"], line["most"])
        if "error" in line:
            answers.notes.append(f"{way.product}, {way.how}, R = {way.most}: {line['error']}")
        else:
            answers.lines[way].append(line)


def measured(
    dataset: Dataset, pythons: dict[Product, Path], sizes: Sizes, folder: Path
) -> Answers:
    answers = Answers(dataset)
    rows = folder / "rows.parquet"
    dataset.rows.to_parquet(rows, index=False)
    for product, python in pythons.items():
        print(f"{dataset.title}: {product.title}", file=sys.stderr)
        task = Task(
            rows=str(rows),
            categories=dataset.categories,
            lower=dataset.lower,
            upper=dataset.upper,
            repetitions=sizes.repetitions,
            seconds=sizes.seconds,
            answers=str(folder / f"{Path(product.script).stem}.jsonl"),
        )
        ask(answers, product, python, task)
    return answers


def score(answers: Answers, way: Way) -> Score | None:
    lines = [line for line in answers.lines[way] if "values" in line]
    if not lines:
        return None
    off = answers.errors(line["values"] for line in lines)
    squares = (off**2).mean(axis=1)
    error = float(np.sqrt(squares.mean()))
    several = len(lines) > 1
    spread = float(squares.std(ddof=1)) / len(lines) ** 0.5 if several else float("nan")
    absent = [sum(value is None for value in line["values"]) for line in lines]
    return Score(
        error=error,
        deviation=spread / (2 * error),
        random=float(np.sqrt(off.var(axis=0, ddof=1).mean())) if several else float("nan"),
        releases=len(lines),
        unanswered=sum(absent) / len(lines),
        seconds=median(line["seconds"] for line in lines),
    )


def parts(answers: Answers, way: Way) -> Parts | None:
    lines = [line for line in answers.lines[way] if "bounded" in line]
    if not lines:
        return None
    off = answers.errors(line["bounded"] for line in lines)
    drawn = len(off) > 1
    variance = off.var(axis=0, ddof=1) if drawn else np.zeros(off.shape[1])
    # The mean over a few samples still holds a little of what sampling adds.
    bias = off.mean(axis=0) ** 2 - variance / len(off)
    noise = [answers.within(line["noised"]) - answers.within([line["bounded"]]) for line in lines]
    return Parts(
        bounding=float(np.sqrt(max(bias.mean(), 0.0))),
        sampling=float(np.sqrt(variance.mean())),
        noise=float(np.sqrt((np.concatenate(noise) ** 2).mean())),
    )


def report(answers: Answers) -> Iterator[str]:
    """The tables of one data set, in Markdown."""
    scores = {way: found for way in answers.lines if (found := score(answers, way)) is not None}
    yield f"### {answers.dataset.title}\n"
    yield "| product | how | R | RMSE | standard error | random | releases | no value | seconds |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for way, found in sorted(scores.items(), key=lambda item: (-item[0].most, item[1].error)):
        yield (
            f"| {way.product} | {way.how} | {way.most} | {found.error:.4f} | "
            f"{found.deviation:.4f} | {found.random:.4f} | {found.releases} | "
            f"{found.unanswered:.1f} | {found.seconds:.1f} |"
        )
    yield "\n| dp-release | R | bounding | sampling | noise | all three | seen |"
    yield "|---|---|---|---|---|---|---|"
    for way, found in scores.items():
        if (made := parts(answers, way)) is not None:
            whole = sum(part**2 for part in made) ** 0.5
            yield (
                f"| {way.how} | {way.most} | {made.bounding:.4f} | {made.sampling:.4f} | "
                f"{made.noise:.4f} | {whole:.4f} | {found.error:.4f} |"
            )
    yield ""
    yield from comparison(scores)
    yield from (f"- {note}" for note in answers.notes)


def comparison(scores: dict[Way, Score]) -> Iterator[str]:
    """Each of ours beside the best peer at the same R, and beside the best at R = 5."""
    for way, found in scores.items():
        if way.product != OWN.title:
            continue
        for most in sorted({5, way.most}, reverse=True):
            rivals = {w: s for w, s in scores.items() if w.product != OWN.title and w.most == most}
            if rivals:
                best = min(rivals, key=lambda w: rivals[w].error)
                ratio = found.error / rivals[best].error
                yield (
                    f"- {way.how}, R = {way.most}: {ratio:.2f} times the best peer at R = {most} "
                    f"({best.product}, {best.how}); the goal of {GOAL} is "
                    f"{'met' if ratio <= GOAL else 'missed'}"
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "datasets", nargs="*", metavar="DATASET", help=f"of {', '.join(DATASETS)}; both by default"
    )
    parser.add_argument("--quick", action="store_true", help="100,000 rows and 3 releases each")
    parser.add_argument(
        "--environments",
        type=Path,
        default=Path.home() / ".cache" / "dp-release-accuracy",
        help="the folder of the peers' virtual environments",
    )
    chosen = parser.parse_args()
    if unknown := set(chosen.datasets) - set(DATASETS):
        parser.error(f"there is no data set {', '.join(sorted(unknown))}")
    sizes = QUICK if chosen.quick else FULL
    pythons = {OWN: Path(sys.executable)}
    for peer in PEERS:
        try:
            pythons[peer] = environment(chosen.environments, peer)
        except UnavailableError as error:
            print(f"- {peer.title} is left out: {error}")
    print(f"Python {platform.python_version()}; {', '.join(each.title for each in pythons)}\n")
    for name in chosen.datasets or DATASETS:
        try:
            dataset = DATASETS[name](sizes.rows)
        except AbsentError as error:
            print(f"- {name} is left out: {error}")
            continue
        with tempfile.TemporaryDirectory() as folder:
            answers = measured(dataset, pythons, sizes, Path(folder))
        print("\n".join(report(answers)), flush=True)


if __name__ == "__main__":
    main()
