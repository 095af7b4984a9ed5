"""The project file and the job files, read into specs with every fault reported at once."""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, Field, ValidationError
from pydantic_core import ErrorDetails

from release.errors import ConfigError, Fault
from release.groups import Lists
from release.specs import LEVELS, Dataset, Discover, Job, Line, Project, Spec

PROJECT_FILE = "dp-release.toml"
LEDGER_VARIABLE = "DP_RELEASE_LEDGER"
LEDGER_KEY = "project.ledger"
JOBS_FOLDER = "jobs"
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
NAME_RULE = "use lower-case letters, digits, - and _, at most 64, beginning with a letter or digit"

TEXT_ENDINGS = (".csv", ".csv.gz", ".ndjson", ".jsonl")

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True)
class Files:
    """A project's files, checked one by one and against each other."""

    folder: Path
    project: Project
    datasets: Mapping[str, Dataset]
    jobs: tuple[Job, ...]

    def dataset_of(self, job: Job) -> Dataset:
        """The dataset that a job reads; it exists, or these files had not been read."""
        return self.datasets[job.dataset]


class _ProjectFile(Spec):
    project: Annotated[Project, Field(description="a table with title, ledger and site")]
    dataset: Annotated[dict[str, Dataset], Field(description="one table for each dataset")]


def read(folder: Path, environment: Mapping[str, str] | None = None) -> Files:
    """The project in ``folder``; raises ConfigError with every fault of every file.

    The ledger's address may stand in the environment instead, since it may hold a password.
    """
    faults: list[Fault] = []
    document = _named(_toml(folder, PROJECT_FILE, faults), faults)
    address = (os.environ if environment is None else environment).get(LEDGER_VARIABLE)
    document = _with_ledger(document, address, faults)
    top = _model(_ProjectFile, document, PROJECT_FILE, faults)
    lists = Lists(folder, _sources(document, folder))
    jobs = list(_jobs(folder, lists, _level(document), faults))
    if top is not None:
        faults += [*_across(top, jobs, folder), *_exposed(top, folder)]
    if faults or top is None:
        raise ConfigError(faults)
    found = tuple(job for job in jobs if job is not None)
    return Files(folder, top.project, top.dataset, found)


def _sources(document: Mapping[str, Any] | None, folder: Path) -> set[Path]:
    """The files that hold private rows, as far as they can be told from a faulty file."""
    tables = document.get("dataset") if document else None
    named = [
        table["source"]
        for table in (tables.values() if isinstance(tables, dict) else ())
        if isinstance(table, dict) and isinstance(table.get("source"), str)
    ]
    return {_resolved(folder, name) for name in named if "\0" not in name}


def _resolved(folder: Path, name: str) -> Path:
    return Path(os.path.realpath(folder / name))


def _level(document: Mapping[str, Any] | None) -> dict[str, Any]:
    """The level of intervals that jobs have where they do not say another."""
    project = document.get("project") if document else None
    level = project.get("level") if isinstance(project, dict) else None
    # One that is wrong is the project file's fault, and not each job's too.
    return (
        {"level": level} if isinstance(level, Decimal) and LEVELS[0] <= level <= LEVELS[1] else {}
    )


def _jobs(
    folder: Path, lists: Lists, level: dict[str, Any], faults: list[Fault]
) -> Iterator[Job | None]:
    for path in sorted((folder / JOBS_FOLDER).glob("*.toml")):
        file = f"{JOBS_FOLDER}/{path.name}"
        if not NAME.fullmatch(path.stem):
            faults.append(Fault(file, "", "the file's name is the job's name", NAME_RULE))
        document = _toml(folder, file, faults)
        if document is not None:
            _listed(document, file, lists, faults)
            document = {**level, **_with_name(document, path.stem, (file, "name"), faults)}
        yield _model(Job, document, file, faults)


def _toml(folder: Path, name: str, faults: list[Fault]) -> dict[str, Any] | None:
    try:
        with (folder / name).open("rb") as file:
            return tomllib.load(file, parse_float=Decimal)
    except FileNotFoundError:
        found, allowed = "the file is missing", "`dp-release init DIR` makes a project that runs"
    except (OSError, UnicodeDecodeError) as error:
        found, allowed = f"cannot be read ({type(error).__name__})", "must be a UTF-8 text file"
    except tomllib.TOMLDecodeError as error:
        found, allowed = f"is not TOML: {error}", "mend the syntax"
    except (ValueError, ArithmeticError, RecursionError):
        found, allowed = "holds a number or a nesting beyond all sense", "mend or remove it"
    faults.append(Fault(name, "", found, allowed))
    return None


def _with_name(
    table: Mapping[str, Any], name: str, place: tuple[str, str], faults: list[Fault]
) -> dict[str, Any]:
    """Hands the name to the model like any other field; only the file's or table's own counts."""
    if "name" in table:
        faults.append(Fault(*place, "is an unknown key", f"the name here is {name!r}"))
    return {**table, "name": name}


def _named(document: dict[str, Any] | None, faults: list[Fault]) -> dict[str, Any] | None:
    tables = document.get("dataset") if document else None
    if document is None or not isinstance(tables, dict):
        return document
    named = {
        name: _with_name(table, name, (PROJECT_FILE, f"dataset.{name}.name"), faults)
        if isinstance(table, dict)
        else table
        for name, table in tables.items()
    }
    return {**document, "dataset": named}


def _with_ledger(
    document: dict[str, Any] | None, address: str | None, faults: list[Fault]
) -> dict[str, Any] | None:
    project = document.get("project") if document else None
    if document is None or not address or not isinstance(project, dict):
        return document
    if project.get("ledger", address) != address:
        found = f"is another ledger than {LEDGER_VARIABLE} names in the environment"
        allowed = "must be said in one place: two ledgers would be two budgets"
        faults.append(Fault(PROJECT_FILE, LEDGER_KEY, found, allowed))
    return {**document, "project": {**project, "ledger": address}}


def _listed(document: dict[str, Any], file: str, lists: Lists, faults: list[Fault]) -> None:
    """Puts the names that a list's file holds in the place of its path."""
    statistic = document.get("statistic")
    if not isinstance(statistic, dict):
        return
    if "groups_file" in statistic:
        allowed = 'name the file in `groups`, as in groups = "products.csv"'
        faults.append(Fault(file, "statistic.groups_file", "is an unknown key", allowed))
    if "groups" not in statistic or statistic["groups"] in get_args(Discover):
        return
    try:
        names, listing = lists.groups(statistic["groups"], statistic.get("by"))
    except ValueError as error:
        allowed = (
            "must be a list, a .txt file of one name a line, a .csv file with a header, or a "
            "table with one of these for each column of `by`"
        )
        faults.append(Fault(file, "statistic.groups", str(error), allowed))
        # A stand-in, so that the job's other faults are still found; the job is never used.
        by = statistic.get("by")
        names, listing = [["-"] * len(by) if isinstance(by, list) else "-"], None
    statistic = {**statistic, "groups": names}
    document["statistic"] = statistic | ({"groups_file": listing} if listing else {})


def _model(
    model: type[Model], document: dict[str, Any] | None, file: str, faults: list[Fault]
) -> Model | None:
    if document is None:
        return None
    try:
        return model.model_validate(document)
    except ValidationError as error:
        faults += [_fault(model, detail, file) for detail in error.errors()]
        return None


def _fault(model: type[BaseModel], detail: ErrorDetails, file: str) -> Fault:
    keys, owner, allowed = _walk(model, detail["loc"])
    key = ".".join(keys)
    match detail["type"]:
        case "extra_forbidden":
            near = difflib.get_close_matches(keys[-1], _keys_of(owner), 1)
            others = ", ".join(sorted(_keys_of(owner)))
            hint = f"did you mean `{near[0]}`?" if near else f"known here are {others}"
            return Fault(file, key, "is an unknown key", hint)
        case "missing":
            found = "is missing"
        case "union_tag_not_found":
            key, found = f"{key}.kind", "is missing"
        case "union_tag_invalid":
            key, found = f"{key}.kind", f"is {detail['ctx']['tag']!r}"
        case "value_error":
            found = detail["msg"].removeprefix("Value error, ")
            if key == LEDGER_KEY:
                found = f"is {found}"  # an address may hold a password
            elif isinstance(detail["input"], bool | int | str | Decimal):
                found = f"is {_shown(detail['input'])} ({found})"
        case _:
            found = f"is {_shown(detail['input'])}"
    return Fault(file, key, found, f"must be {allowed}" if allowed else "see docs/jobs.md")


def _shown(value: Any) -> str:
    match value:
        case dict():
            return "a table"
        case list() | tuple():
            return f"a list of {len(value)}"
        case bool():
            return str(value).lower()  # as TOML writes it
        case int() if value.bit_length() > 200:
            return "a very large number"
        case str():
            text = repr(value)
        case _:
            text = str(value)
    return text if len(text) <= 60 else text[:57] + "…"


def _walk(
    model: type[BaseModel], loc: Sequence[int | str]
) -> tuple[list[str], type[BaseModel], str]:
    """The key's path as written, the model it stands in, and what that model allows there."""
    keys: list[str] = []
    owner, allowed = model, ""
    inner: Any = model
    for step in loc:
        models = _models_in(inner)
        if isinstance(step, str) and (tagged := _tagged(models, step)) and len(models) > 1:
            inner = tagged
            continue
        keys.append(str(step))
        if models and isinstance(step, str) and get_origin(inner) is not dict:
            owner = models[0]
            field = owner.model_fields.get(step)
            inner = field.annotation if field else None
            allowed = (field.description or "") if field else ""
        elif get_origin(inner) is dict:
            inner = get_args(inner)[1]
    return keys, owner, allowed


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if get_origin(annotation) in {Union, UnionType, Annotated, tuple}:
        return [model for part in get_args(annotation) for model in _models_in(part)]
    return []


def _tagged(models: list[type[BaseModel]], tag: str) -> type[BaseModel] | None:
    kinds = {model.model_fields["kind"].default: model for model in models if _has_kind(model)}
    return kinds.get(tag)


def _has_kind(model: type[BaseModel]) -> bool:
    return "kind" in model.model_fields


def _keys_of(model: type[BaseModel]) -> set[str]:
    return set(model.model_fields) - {"name", "groups_file"}


def _across(top: _ProjectFile, jobs: Sequence[Job | None], folder: Path) -> Iterator[Fault]:
    """What no file shows by itself."""
    yield from _badly_named(top.dataset)
    yield from _twice_paid(top.dataset, folder)
    yield from _replaced(top.dataset)
    known = [job for job in jobs if job is not None]
    for job in known:
        if job.dataset not in top.dataset:
            near = difflib.get_close_matches(job.dataset, top.dataset, 1) or sorted(top.dataset)
            yield Fault(
                f"{JOBS_FOLDER}/{job.name}.toml",
                "dataset",
                f"no account covers {job.dataset!r}",
                f"must be a dataset of {PROJECT_FILE}: {', '.join(near) or 'it has none'}",
            )
        elif job.statistic.discovers and not top.dataset[job.dataset].budget.threshold_share:
            yield Fault(
                f"{JOBS_FOLDER}/{job.name}.toml",
                "statistic.groups",
                f"is {job.statistic.groups!r}, which spends δ, and [dataset.{job.dataset}] sets "
                "none aside",
                "must be a public list, or the account must be opened with "
                "budget.threshold_share, such as 0.1",
            )
    yield from _overshared(known)


def _badly_named(datasets: Mapping[str, Dataset]) -> Iterator[Fault]:
    for name, dataset in datasets.items():
        if dataset.source.lower().endswith(TEXT_ENDINGS) and dataset.time_format is None:
            yield Fault(
                PROJECT_FILE,
                f"dataset.{name}.time_format",
                "is missing",
                f"must be set, since {dataset.source!r} keeps its times as text: "
                '"iso", or a pattern such as "%d/%m/%Y %H:%M"',
            )
        if dataset.table is not None and not dataset.source.lower().endswith(".duckdb"):
            yield Fault(
                PROJECT_FILE,
                f"dataset.{name}.table",
                f"is {dataset.table!r}, but {dataset.source!r} holds no tables",
                "must be left out, but for a .duckdb file",
            )
        if not NAME.fullmatch(name):
            yield Fault(PROJECT_FILE, f"dataset.{name}", "is not a name", NAME_RULE)


def _exposed(top: _ProjectFile, folder: Path) -> Iterator[Fault]:
    """A site that is put on the web must not take private rows or the ledger's key along."""
    site = _resolved(folder, top.project.site)
    kept = [PROJECT_FILE, JOBS_FOLDER, *(each.source for each in top.dataset.values())]
    if (ledger := top.project.ledger.removeprefix("sqlite:///")) != top.project.ledger:
        kept.append(ledger)
    for name in kept:
        path = _resolved(folder, name)
        if path.is_relative_to(site) or site.is_relative_to(_resolved(folder, JOBS_FOLDER)):
            yield Fault(
                PROJECT_FILE,
                "project.site",
                f"is {top.project.site!r}, which holds {name!r}",
                "must be a folder for the pages alone",
            )
            return


def _twice_paid(datasets: Mapping[str, Dataset], folder: Path) -> Iterator[Fault]:
    # A second account over the same people would hand their budget out a second time.
    same = Counter(
        (_resolved(folder, each.source), each.table, each.unit) for each in datasets.values()
    )
    for (source, _, unit), count in same.items():
        if count > 1:
            yield Fault(
                PROJECT_FILE,
                "dataset",
                f"{count} datasets read {unit!r} of '{source.name}', each with its own budget",
                "one source and privacy unit must be one dataset, shared by its jobs",
            )


def _replaced(datasets: Mapping[str, Dataset]) -> Iterator[Fault]:
    # What is spent from the old account after the new one opened would count in neither's budget.
    for name, dataset in datasets.items():
        if dataset.replaces in datasets:
            yield Fault(
                PROJECT_FILE,
                f"dataset.{name}.replaces",
                f"is {dataset.replaces!r}, which is still a dataset of this file",
                f"must be an account that is no longer used: remove [dataset.{dataset.replaces}]",
            )
    for old, count in Counter(dataset.replaces for dataset in datasets.values()).items():
        if old is not None and count > 1:
            yield Fault(
                PROJECT_FILE,
                "dataset",
                f"{count} datasets replace {old!r}",
                "an account's spend can be taken over by one other",
            )


def _overshared(jobs: Sequence[Job]) -> Iterator[Fault]:
    total: Counter[str] = Counter()
    shares: dict[str, Fraction] = {}
    for job in jobs:
        total[job.dataset] += 1
        shares[job.dataset] = shares.get(job.dataset, Fraction(0)) + Fraction(job.noise.share)
    for dataset, share in shares.items():
        if share > 1:
            yield Fault(
                JOBS_FOLDER,
                "noise.share",
                f"the shares of the {total[dataset]} jobs on {dataset!r} add up to {float(share)}",
                "must add up to at most 1 (a job without a share takes the whole)",
            )


__all__ = ["JOBS_FOLDER", "NAME", "PROJECT_FILE", "Files", "Line", "read"]
