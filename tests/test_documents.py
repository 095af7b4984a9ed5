"""The documents say what the code does: every command, option, key and block is held to it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest
import typer
from pydantic import BaseModel

from release import accounting, config, shipped
from release.accounting import EVENTS, Charge, event_from_json
from release.cli.commands import app
from release.specs import (
    Budget,
    Condition,
    Contribution,
    Count,
    Dataset,
    Job,
    Leaderboard,
    Mean,
    Noise,
    Project,
    Publish,
    Sum,
)
from tests.projects import toml

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
# Where each model's keys stand in the files; `name` and `groups_file` are never written there.
PREFIXES: dict[type[BaseModel], str] = {
    Project: "",
    Dataset: "",
    Budget: "budget.",
    Job: "",
    Count: "statistic.",
    Sum: "statistic.",
    Mean: "statistic.",
    Leaderboard: "statistic.",
    Condition: "statistic.where.",
    Contribution: "contribution.",
    Noise: "noise.",
    Publish: "publish.",
}
TABLES = {"budget", "statistic", "contribution", "noise", "publish", "name", "groups_file"}


def keys() -> Iterator[str]:
    for model, prefix in PREFIXES.items():
        for name in model.model_fields:
            if name not in TABLES or (prefix and name not in {"name", "groups_file"}):
                yield prefix + name


@pytest.mark.parametrize("key", sorted(set(keys())))
def test_every_key_stands_in_the_reference(key: str) -> None:
    assert f"| `{key}` |" in (DOCS / "jobs.md").read_text(encoding="utf-8")


def commands() -> Iterator[tuple[str, list[str]]]:
    command = typer.main.get_command(app)
    todo = [("dp-release", command)]
    while todo:
        name, one = todo.pop()
        for child, inner in getattr(one, "commands", {}).items():
            todo.append((f"{name} {child}", inner))
        options = [text for param in one.params for text in param.opts if text.startswith("--")]
        if not getattr(one, "commands", {}):
            yield name, options


@pytest.mark.parametrize(("command", "options"), sorted(commands()))
def test_every_command_and_option_stands_in_the_reference(
    command: str, options: list[str]
) -> None:
    text = (DOCS / "commands.md").read_text(encoding="utf-8")
    assert f"`{command}" in text
    for option in options:
        assert f"`{option}" in text, f"{option} of {command}"


def blocks(path: Path, language: str) -> list[str]:
    found = re.findall(
        rf"^```{language}\n(.*?)^```", path.read_text(encoding="utf-8"), re.M | re.S
    )
    assert found, f"{path.name} has no block of {language}"
    return found


def test_the_examples_of_the_reference_are_a_project(tmp_path: Path) -> None:
    project, job, *changes = blocks(DOCS / "jobs.md", "toml")
    (tmp_path / "jobs").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "shops.csv").write_text("city,shop\nLeeds,North\nLeeds,South\n")
    (tmp_path / "dp-release.toml").write_text(project, encoding="utf-8")
    kinds = []
    for change in ("", *changes):
        parts = (tomllib.loads(text, parse_float=Decimal) for text in (job, change))
        whole = toml({key: value for part in parts for key, value in part.items()})
        (tmp_path / "jobs" / "category-ratings.toml").write_text(whole, encoding="utf-8")
        (found,) = config.read(tmp_path).jobs
        assert found.name == "category-ratings"
        kinds.append(found.statistic.kind)
    assert kinds == ["mean", "count", "sum", "leaderboard", "mean", "leaderboard"]


def test_the_form_of_every_event_is_shown_by_an_example() -> None:
    text = (DOCS / "accounting.md").read_text(encoding="utf-8")
    shown = dict(re.findall(r"^\| `([a-z-]+)` \| `({.*})` \|$", text, re.M))
    assert shown.keys() == EVENTS.keys()
    for name, example in shown.items():
        event = event_from_json(json.loads(example))
        assert event.type == name
        assert event_from_json(event.to_json()) == event
        # And an account that has set some of δ aside takes it.
        budget = accounting.Budget.open("rdp", 8, Decimal("1e-6"), Decimal("0.1"))
        assert budget.admits(Charge(0), budget.charge(event))


def test_the_readme_shows_what_its_commands_print(tmp_path: Path) -> None:
    readme = ROOT / "README.md"
    lines = [line for block in blocks(readme, "console") for line in block.splitlines()]
    ours = [line.removeprefix("$ ") for line in lines if "dp-release" in line]
    assert [line.split()[1] for line in ours] == ["init", "check", "run"]
    assert shipped.SAMPLE_NOW in ours[-1]
    printed = ""
    folder = tmp_path
    for line in ours:
        words = line.split()[1:]
        done = subprocess.run(
            [sys.executable, "-m", "release", *words],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode in {0, 3}, done.stderr
        printed, folder = done.stdout, tmp_path / "shop"
    assert [printed] == blocks(readme, "text")
    for name in re.findall(r"\]\((?!http)([^)#]+)\)", readme.read_text(encoding="utf-8")):
        assert (ROOT / name).exists(), name
