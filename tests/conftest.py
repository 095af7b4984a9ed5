"""What all tests share: both databases, golden files, and no silent skip where none may be."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from tests.ledger.places import Place, PostgreSQL, SQLite
from tests.postgresql import Server, binaries

# No test is a timed one: a slow machine is no fault of the code.
settings.register_profile("house", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")

# A commit waits for the disk, and so do thousands of them. What that is for, no test can try: a
# process or a server that is killed has lost nothing that it gave to the kernel.
MEMORY, ENOUGH = Path("/dev/shm"), 2 * 2**30

# A worker that has one test of these has all: they share what is slow to make, or one looks at
# what the others write. Under pytest 9 the group that a mark names is no group to xdist.
WHOLE = {"tests/site/test_golden.py", "tests/test_real_data.py"}

# Some data sets do not live in the repository; their tests say so by this word.
ALLOWED_SKIP = "data absent:"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--golden", action="store_true", help="write the golden files anew")


def pytest_configure() -> None:
    """Has tests write to memory where there is room; a `TMPDIR` that is set stays."""
    if "TMPDIR" in os.environ or not os.access(MEMORY, os.W_OK):
        return
    if shutil.disk_usage(MEMORY).free >= ENOUGH:
        os.environ["TMPDIR"] = str(MEMORY)  # also for processes that tests start
        tempfile.tempdir = None  # it was looked up before this file was read


class Scheduler(LoadScopeScheduling):
    """Gives whichever worker is free the next test, or a file that stays whole; those first."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return file if file in WHOLE else nodeid


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduler:
    return Scheduler(config, log)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, bytes], None]:
    """Holds bytes against a golden file; under ``--golden`` writes the file instead."""

    def hold(expected: Path, made: bytes) -> None:
        if request.config.getoption("--golden"):
            expected.parent.mkdir(parents=True, exist_ok=True)
            expected.write_bytes(made)
        assert made == expected.read_bytes(), f"{expected} differs: look, then `make golden`"

    return hold


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Server]:
    """A server for all tests of this process that ask for it."""
    programs = binaries()
    if programs is None:
        pytest.skip("PostgreSQL is not installed: there is no initdb with its pg_ctl")
    with Server(programs) as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Where no ledger is yet, in each of the databases."""
    folder = tmp_path / "shop"
    if request.param == "sqlite":
        return SQLite(folder)
    return PostgreSQL(folder, request.getfixturevalue("postgresql"))


def refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turns a skip into a failure where ``DP_RELEASE_NO_SKIP`` is 1, as in CI."""
    if os.environ.get("DP_RELEASE_NO_SKIP") != "1" or not report.skipped:
        return
    if hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    reason = reason.removeprefix("Skipped: ")
    if not reason.startswith(ALLOWED_SKIP):
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid} was skipped, and nothing may be skipped here: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    refuse_skip(report)
    return report
