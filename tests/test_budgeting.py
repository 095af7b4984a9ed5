"""The commands about budgets, in processes of their own, and the life of an account."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from dp_accounting.rdp import RdpAccountant
from hypothesis import given
from hypothesis import strategies as st

from release import config
from release.accounting import (
    AccountingError,
    Composed,
    Event,
    Gaussian,
    Laplace,
    PoissonGaussian,
    Spend,
    replay,
)
from release.accounting.interop import to_dp_accounting
from release.cli.budgeting import MOST_JSON
from release.errors import ConfigError, UsageError
from release.project import open_project
from tests.command import Done, dp_release
from tests.ledger.examples import NOW
from tests.projects import after_weeks, leaderboard_job, mean_job, toml, write_project

HALF = {"releases": 10, "share": Decimal("0.5")}
BOTH = {"mean": mean_job(noise=HALF), "top": leaderboard_job(noise=HALF)}


def entries(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = dp_release(folder, "ledger", "list", "--json").document[
        "entries"
    ]
    return found


def record(folder: Path, *arguments: str, reason: str = "a model trained elsewhere") -> Done:
    return dp_release(folder, "ledger", "record", "ratings", "--reason", reason, *arguments)


def error(done: Done) -> dict[str, Any]:
    """The one document of a command that failed under ``--json``."""
    assert done.err == ""
    found: dict[str, Any] = done.document["error"]
    assert "Traceback" not in found["message"]
    return found


# ---------------------------------------------------------------------------- open


def test_open_opens_each_account_once(tmp_path: Path) -> None:
    write_project(tmp_path)
    (tmp_path / "data" / "ratings.parquet").unlink()
    done = dp_release(tmp_path, "open")
    assert (done.code, done.err) == (0, "")
    assert "ε at most 0.0000 of 1.5 spent" in done.out
    record = entries(tmp_path)
    assert [entry["kind"] for entry in record] == ["open", "project"]
    again = dp_release(tmp_path, "open", "--json").document["accounts"]
    assert [(one["name"], one["filter"]["spent"]) for one in again] == [("ratings", 0)]
    assert entries(tmp_path) == record


def test_a_budget_that_leaves_an_accountant_nothing_is_a_fault(tmp_path: Path) -> None:
    write_project(tmp_path, budget={"accountant": "rdp", "epsilon": Decimal("1e-9")})
    for command in ("open", "check", "plan"):
        found = error(dp_release(tmp_path, command, "--json"))
        (fault,) = found["faults"]
        assert (found["kind"], fault["key"]) == ("config", "dataset.ratings.budget")


# ---------------------------------------------------------------------------- plan


def test_plan_as_words_and_as_a_document(tmp_path: Path) -> None:
    write_project(tmp_path, jobs=BOTH)
    words = dp_release(tmp_path, "plan", "--group-size", "5,500")
    document = dp_release(tmp_path, "plan", "--group-size", "5,500", "--json").document
    assert (words.code, words.err) == (0, "")
    assert [job["job"] for job in document["jobs"]] == ["mean", "top"]
    mean = document["jobs"][0]
    assert mean["fit"] == {"gdp": 10, "rdp": 8, "zcdp": 6}
    assert mean["stop"] == {
        "window": "2026-03-16",
        "label": "2026-W12",
        "end": "2026-03-23T00:00:00+00:00",
    }
    few, many = mean["half_widths"]
    assert few == {"group_size": 5, "half_width": None}
    steps = document["accounts"][0]["releases"]
    assert len(steps) == 22
    assert steps[-1]["admitted"] is False
    assert 1.4999 < steps[19]["epsilon"]["gdp"] <= 1.5 < steps[19]["epsilon"]["rdp"]
    for said in (
        f"a release costs ρ = {mean['charge'] / 1e12:.12f}",
        f"{mean['sigma']['count']:.4g} on each count",
        f"{mean['sigma']['sum']:.4g} on each sum",
        "interval of 95 % at a group of 5: not reliable",
        f"reliable from a group of about {mean['smallest_reliable_group']:,} on",
        f"interval of 95 % at a group of 500: ± {many['half_width']:.3g}",
        "10 by gdp, 8 by rdp, 6 by zcdp",
        "first window refused: 2026-W12",
        "refused by the budget",
    ):
        assert said in words.out
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("accountant", ["gdp", "zcdp", "rdp"])
def test_plan_says_what_the_ledger_then_holds(tmp_path: Path, accountant: str) -> None:
    budget = {"accountant": accountant, "epsilon": 2}
    write_project(tmp_path, jobs={"top": leaderboard_job(noise={"releases": 2})}, budget=budget)
    document = dp_release(tmp_path, "plan", "--json").document
    assert dp_release(tmp_path, "run", "--now", after_weeks(3)).code == 3
    kept = [entry for entry in entries(tmp_path) if entry["kind"] == "release"]
    assert [entry["rho"] for entry in kept] == [document["jobs"][0]["rho"]] * 2
    spent = dp_release(tmp_path, "budget", "--json").document["accounts"][0]["spent"]["epsilon"]
    assert spent == document["accounts"][0]["releases"][1]["epsilon"]
    assert document["jobs"][0]["stop"]["window"] == "2026-01-19"


def test_plan_solves_the_other_way(tmp_path: Path) -> None:
    write_project(tmp_path, jobs=BOTH)
    by_count = dp_release(tmp_path, "plan", "mean", "--releases", "25", "--json").document
    assert by_count["jobs"][0]["fit"]["gdp"] == 25
    done = dp_release(
        tmp_path, "plan", "mean", "--half-width", "0.5", "--group-size", "300,900", "--json"
    )
    (job,) = done.document["jobs"]
    reached, larger = (each["half_width"] for each in job["half_widths"])
    assert 0.4999 < reached <= 0.5
    assert larger < reached / 2.9


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--releases", "5", "--half-width", "1"], "not both"),
        (["--half-width", "1"], "needs --group-size"),
        (["--half-width", "nan", "--group-size", "9"], "above 0 and finite"),
        (["--half-width", "inf", "--group-size", "9"], "above 0 and finite"),
        (["--half-width", "-1", "--group-size", "9"], "above 0 and finite"),
        (["--half-width", "1e-9", "--group-size", "9"], "no noise that its share can pay for"),
        (["--group-size", "many"], "--group-size is not a list"),
        (["--group-size", "5,0"], "--group-size is not a list"),
        (["--group-size", "-5"], "--group-size is not a list"),
        (["--group-size", "9" * 5000], "--group-size is not a list"),
        (["--releases", "0"], "--releases"),
        (["--releases", "1.5"], "--releases"),
        (["nothing"], "there is no job nothing"),
    ],
)
def test_plan_refuses_what_it_cannot_answer(
    tmp_path: Path, arguments: list[str], said: str
) -> None:
    write_project(tmp_path, rows=[])
    done = dp_release(tmp_path, "plan", *arguments, "--json")
    assert done.code == 2
    assert said in error(done)["message"]


# ---------------------------------------------------------------------------- convert


def converted(tmp_path: Path, *arguments: str, delta: str = "1e-6") -> dict[str, Any]:
    done = dp_release(tmp_path, "convert", "--delta", delta, *arguments, "--json")
    assert (done.code, done.err) == (0, "")
    found: dict[str, Any] = done.document
    return found


@pytest.mark.parametrize(
    ("arguments", "delta", "expected"),
    [
        (["--rho", "0.01"], "1e-6", {"gdp": 0.5751, "rdp": 0.6217, "zcdp": 0.7534}),
        (["--rho", "0.1"], "1e-6", {"gdp": 1.9945, "rdp": 2.1419, "zcdp": 2.4508}),
        (["--rho", "1"], "1e-6", {"gdp": 7.2861, "rdp": 7.7662, "zcdp": 8.4338}),
        (["--rho", "0.052"], "1e-6", {"gdp": 1.3970, "rdp": 1.5030, "zcdp": 1.7472}),
        # Ten releases at σ = 0.8 and Δ = 1 are not ε = 1.5.
        (["--rho", "7.8125"], "1e-6", {"gdp": 25.95, "rdp": 27.38, "zcdp": 28.59}),
        # (2, 0.5)-RDP is not (1.0, 1e-5)-DP, and bounds neither ρ nor μ.
        (
            ["--rdp", "2,0.5"],
            "1e-5",
            {"gdp": None, "rdp": 10.6266, "rdp-classic": 12.0129, "zcdp": None},
        ),
        (["--rho", "0"], "1e-6", {"gdp": 0, "rdp": 0, "rdp-classic": 0, "zcdp": 0}),
    ],
)
def test_convert_knows_the_right_numbers(
    tmp_path: Path, arguments: list[str], delta: str, expected: dict[str, float | None]
) -> None:
    found = converted(tmp_path, *arguments, delta=delta)
    for name, epsilon in expected.items():
        places = 0.005 if epsilon and epsilon > 20 else 5e-5
        assert found["epsilon"][name] == (
            None if epsilon is None else pytest.approx(epsilon, abs=places)
        )


def test_an_often_quoted_epsilon_is_below_the_truth(tmp_path: Path) -> None:
    found = converted(tmp_path, "--rho", "0.025")["epsilon"]
    assert found["rdp"] == pytest.approx(1.01407425472613, abs=1e-14)
    assert found["rdp"] > 1.0140742546
    assert found["zcdp"] == pytest.approx(1.2003940003, abs=1e-10)


def test_convert_between_what_is_the_same_for_gaussian_noise(tmp_path: Path) -> None:
    by_rho, by_mu = converted(tmp_path, "--rho", "0.125"), converted(tmp_path, "--mu", "0.5")
    assert by_rho == by_mu
    assert by_mu["rho"] == 0.125
    assert by_mu["if_gaussian"] == {"mu": pytest.approx(0.5)}
    # ρ = ε(2)/2 is right for Gaussian noise, and stands under that name only.
    point = converted(tmp_path, "--rdp", "2,0.25")
    assert (point["rho"], point["if_gaussian"]) == (None, {"rho": 0.125})
    assert point["epsilon"]["rdp"] > by_rho["epsilon"]["rdp"]


def test_convert_from_a_budget_and_back(tmp_path: Path) -> None:
    found = converted(tmp_path, "--epsilon", "1")
    assert {name: int(rho * 1000) for name, rho in found["rho"].items()} == {
        "gdp": 28,
        "rdp": 24,
        "zcdp": 17,
    }
    for name, rho in found["rho"].items():
        back = converted(tmp_path, "--rho", f"{rho:.12f}")["epsilon"][name]
        assert 1 - 1e-9 < back <= 1


def test_convert_says_when_each_formula_is_valid(tmp_path: Path) -> None:
    for arguments in (["--rho", "0.1"], ["--mu", "1"], ["--rdp", "2,0.5"], ["--epsilon", "1"]):
        done = dp_release(tmp_path, "convert", "--delta", "1e-6", *arguments)
        valid = converted(tmp_path, *arguments)["valid"]
        assert {"gdp", "rdp", "zcdp"} <= valid.keys()
        for name, when in valid.items():
            (line,) = (one for one in done.out.splitlines() if one.split()[0] == name)
            assert line.endswith(when)
        assert "Gaussian noise only" in valid["gdp"]
    done = dp_release(tmp_path, "convert", "--delta", "1e-6", "--rdp", "2,0.5")
    assert done.out.count("does not apply") == 2
    assert "if the noise is Gaussian: rho = 0.25" in done.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "exactly one of --epsilon, --rho, --mu and --rdp"),
        (["--rho", "1", "--mu", "1"], "exactly one of"),
        (["--epsilon", "1", "--rdp", "2,1"], "exactly one of"),
        (["--rho", "-1"], "--rho must not be below 0"),
        (["--rho", "nan"], "--rho: 'nan' is not a number"),
        (["--rho", "1e999"], "--rho: '1e999' is not a number"),
        (["--epsilon", "-1"], "--epsilon must not be below 0"),
        (["--mu", "0"], "mu must be above 0"),
        (["--mu", "one"], "--mu: 'one' is not a number"),
        (["--rdp", "2"], "--rdp: '2' is not ALPHA,EPS"),
        (["--rdp", "2,1,1"], "--rdp: '1,1' is not a number"),
        (["--rdp", "1,0.5"], "order must be above 1"),
        (["--rho", "1", "--delta", "0"], "strictly between 0 and 1"),
        (["--rho", "1", "--delta", "1"], "strictly between 0 and 1"),
        (["--epsilon", "1", "--delta", "2"], "strictly between 0 and 1"),
    ],
)
def test_convert_refuses_what_has_no_answer(
    tmp_path: Path, arguments: list[str], said: str
) -> None:
    done = dp_release(tmp_path, "convert", "--delta", "1e-6", *arguments, "--json")
    assert done.code == 2
    assert said in error(done)["message"]


# ---------------------------------------------------------------------------- record


def test_each_way_to_describe_an_event(tmp_path: Path) -> None:
    write_project(tmp_path, budget={"accountant": "rdp", "epsilon": 8})
    kept = Composed((Laplace(1, 50), Gaussian(2, 90)), 2)
    (tmp_path / "event.json").write_text(json.dumps(kept.to_json()), encoding="utf-8")
    ways: list[tuple[list[str], Event]] = [
        (["--event", "event.json"], kept),
        (["--gaussian", "40.5", "--sensitivity", "2", "--count", "3"], Gaussian(2.0, 40.5, 3)),
        (["--gaussian", "40.5", "--sensitivity", "2"], Gaussian(2.0, 40.5)),
        (
            ["--dp-sgd", "--sampling-rate", "0.01", "--noise-multiplier", "1.5", "--steps", "20"],
            PoissonGaussian(0.01, 1.5, 20),
        ),
    ]
    for arguments, event in ways:
        assert record(tmp_path, *arguments).code == 0
        last = entries(tmp_path)[-1]
        assert (last["kind"], last["job"], last["event"]) == ("record", None, event.to_json())
    with open_project(tmp_path) as project:
        (account,) = project.accounts()
        spend = Spend()
        for _, event in ways:
            spend = spend.plus(event)
        assert account.last.sums == spend
        assert account.last.body == {"reason": "a model trained elsewhere"}
    assert "a model trained elsewhere" in "".join(
        path.read_text("utf-8") for path in tmp_path.glob("site/accounts/**/*.html")
    )


ONE_ROUND = ["--dp-sgd", "--sampling-rate", "0.02", "--noise-multiplier", "1.2"]


def test_five_hundred_federated_rounds(tmp_path: Path) -> None:
    write_project(tmp_path, budget={"accountant": "rdp", "epsilon": 8})
    one = PoissonGaussian(0.02, 1.2)
    with open_project(tmp_path) as project:
        project.record("ratings", one, "round 1", NOW)
        # What a command adds to a charge is to verify all rounds before it, 500 times over.
        for number in range(2, 500):
            with project.ledger.writing("ratings") as writer:
                writer.record(one, f"round {number}", NOW)
        project.record("ratings", one, "round 500", NOW)
    (account,) = dp_release(tmp_path, "budget", "--json").document["accounts"]
    whole = PoissonGaussian(0.02, 1.2, 500)
    assert account["spent"]["epsilon"] == Spend().plus(whole).epsilons(Decimal("1e-6"))
    other_library = RdpAccountant(list(range(2, 65))).compose(to_dp_accounting(whole).event)
    expected = other_library.get_epsilon(1e-6)
    # Ours has orders between whole ones besides.
    assert 0.99 * expected < account["spent"]["epsilon"]["rdp"] <= expected
    together = tmp_path / "together"
    write_project(together, budget={"accountant": "rdp", "epsilon": 8})
    assert record(together, *ONE_ROUND, "--steps", "500").code == 0
    (other,) = dp_release(together, "budget", "--json").document["accounts"]
    for key in ("spent", "filter", "left"):
        assert account[key] == other[key]


def test_filter_and_odometer_are_told_apart(tmp_path: Path) -> None:
    write_project(tmp_path, budget={"accountant": "rdp", "epsilon": 8})
    assert record(tmp_path, *ONE_ROUND, "--steps", "500").code == 0
    (account,) = dp_release(tmp_path, "budget", "--json").document["accounts"]
    # The filter counts ε at the one order that was fixed at opening; the odometer may take
    # whichever order is best by now, and so shows less.
    assert account["filter"]["order"] > 1
    assert account["filter"]["spent"] <= account["filter"]["cap"]
    assert account["spent"]["epsilon"]["rdp"] < account["filter"]["epsilon"] <= 8
    assert account["spent"]["rho"] is None
    assert account["spent"]["epsilon"]["gdp"] is None
    assert account["left"] == {"rho": None}


def test_what_does_not_fit_is_refused_with_nothing_charged(tmp_path: Path) -> None:
    write_project(tmp_path)
    assert record(tmp_path, "--gaussian", "30", "--sensitivity", "1").code == 0
    before = entries(tmp_path)
    done = record(tmp_path, "--gaussian", "30", "--sensitivity", "1", "--count", "200", "--json")
    assert (done.code, error(done)["kind"]) == (3, "refused")
    assert "Nothing was charged" in error(done)["hint"]
    assert entries(tmp_path) == before


def test_what_the_accountant_cannot_take_says_which_could(tmp_path: Path) -> None:
    write_project(tmp_path)
    assert dp_release(tmp_path, "open").code == 0
    before = entries(tmp_path)
    done = record(tmp_path, *ONE_ROUND, "--steps", "5", "--json")
    assert (done.code, error(done)["kind"]) == (2, "accounting")
    assert error(done)["hint"] == "Accounts that can: rdp."
    (tmp_path / "event.json").write_text(json.dumps(Laplace(1, 50).to_json()), encoding="utf-8")
    done = record(tmp_path, "--event", "event.json", "--json")
    assert error(done)["hint"] == "Accounts that can: zcdp, rdp."
    assert entries(tmp_path) == before


GOOD = {"type": "gaussian", "version": 1, "sensitivity": 1, "sigma": 30, "count": 1}


def text(**changes: Any) -> str:
    return json.dumps({**GOOD, **changes})


def nested(depth: int) -> str:
    start, end = '{"type": "composed", "version": 1, "events": [', "]}"
    return start * depth + json.dumps(GOOD) + end * depth


BAD_EVENTS = {
    "": "cannot be read as JSON",
    "{": "cannot be read as JSON",
    "\udcff": "cannot be read as JSON",
    "[" * 100_000: "nested too deeply",
    '{"sigma": ' + "9" * 5000 + "}": "cannot be read as JSON",
    "[]": "must be a JSON object",
    "null": "must be a JSON object",
    "{}": "type is not known",
    text(type="gauss"): "type is not known",
    text(type=["gaussian"]): "type is not known",
    text(version=2): "must have version 1",
    text(version=True): "must have version 1",
    text(colour="red"): "of type gaussian does not take 'colour'",
    text(**{"x" * 10**6: 1}): f"does not take '{'x' * 39}",
    '{"type": "gaussian", "version": 1, "a": 1}': "has no sensitivity and has no sigma and does",
    text(sigma=float("nan")): "sigma must be above 0 and finite",
    text(sigma=float("inf")): "sigma must be above 0 and finite",
    text(sigma=0): "sigma must be above 0 and finite",
    text(sigma=-30): "sigma must be above 0 and finite",
    text(sigma=True): "sigma must be a JSON number",
    text(sigma="30"): "sigma must be a JSON number",
    text(sigma=None): "sigma must be a JSON number",
    text(sensitivity=-1): "sensitivity must be above 0 and finite",
    text(count=0): "count must be at least 1",
    text(count=-1): "count must be at least 1",
    text(count=1.0): "count must be a whole number",
    text(count=True): "count must be a whole number",
    text()[:-1] + ', "sigma": 3000}': "names a key twice",
    '{"type": "composed", "version": 1, "events": []}': "at least one event",
    '{"type": "composed", "version": 1, "events": [1]}': "must be a JSON object",
    nested(30): "nested too deeply",
    nested(400): "nested too deeply",
    " " * (MOST_JSON + 1): "too large",
}


def test_files_that_describe_no_event(tmp_path: Path) -> None:
    write_project(tmp_path)
    assert dp_release(tmp_path, "open").code == 0
    before = entries(tmp_path)
    for content, said in BAD_EVENTS.items():
        (tmp_path / "event.json").write_bytes(content.encode("utf-8", "surrogateescape"))
        done = record(tmp_path, "--event", "event.json", "--json")
        assert (done.code, said in error(done)["message"]) == (2, True), (content[:80], done)
    (tmp_path / "event.json").write_text(text(colour="red"), encoding="utf-8")
    assert error(record(tmp_path, "--event", "event.json", "--json"))["hint"] == (
        "Its keys are type, version, count, sensitivity, sigma; count may be left out."
    )
    for path, said in (
        ("absent.json", "absent.json: cannot be read (No such file or directory)"),
        (".", ".: cannot be read (Is a directory)"),
        ("/dev/zero", "/dev/zero: is too large to be an event"),
    ):
        done = record(tmp_path, "--event", path, "--json")
        assert (done.code, error(done)["message"]) == (2, said)
    assert entries(tmp_path) == before
    (tmp_path / "event.json").write_text(nested(20), encoding="utf-8")
    assert record(tmp_path, "--event", "event.json").code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "exactly one of --event, --gaussian and --dp-sgd"),
        (["--gaussian", "3", "--dp-sgd"], "exactly one of"),
        (["--gaussian", "3"], "--gaussian needs --sensitivity"),
        (["--gaussian", "3", "--sensitivity", "nan"], "sensitivity must be above 0 and finite"),
        (["--gaussian", "inf", "--sensitivity", "1"], "sigma must be above 0 and finite"),
        (["--gaussian", "-3", "--sensitivity", "1"], "sigma must be above 0 and finite"),
        (["--gaussian", "3", "--sensitivity", "1", "--count", "0"], "count must be at least 1"),
        # An option that would be ignored could hide most of what was spent.
        (["--gaussian", "3", "--sensitivity", "1", "--steps", "500"], "not go with --steps"),
        (["--event", "event.json", "--count", "500"], "not go with --count"),
        ([*ONE_ROUND, "--steps", "5", "--count", "100"], "not go with --count"),
        (ONE_ROUND, "--dp-sgd needs --steps"),
        (["--dp-sgd"], "needs --sampling-rate, --noise-multiplier, --steps"),
        ([*ONE_ROUND, "--steps", "-5"], "count must be at least 1"),
        ([*ONE_ROUND, "--sampling-rate", "1.5", "--steps", "5"], "sampling_rate must be at most"),
    ],
)
def test_command_lines_that_describe_no_event(
    tmp_path: Path, arguments: list[str], said: str
) -> None:
    write_project(tmp_path, rows=[])
    done = record(tmp_path, *arguments, "--json")
    assert done.code == 2
    assert said in error(done)["message"]
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    "reason", ["", " ", "two\nlines", "a\x1b[2J", "a\x00b", "\u2028", "\udcff"]
)
def test_a_record_needs_a_reason_of_one_line(tmp_path: Path, reason: str) -> None:
    write_project(tmp_path, rows=[])
    with open_project(tmp_path) as project:
        with pytest.raises(UsageError, match="the reason is empty, or holds a control"):
            project.record("ratings", Gaussian(1, 30), reason, NOW)
        assert project.accounts() == []


def test_a_record_needs_a_reason_and_an_account(tmp_path: Path) -> None:
    write_project(tmp_path, rows=[])
    done = dp_release(tmp_path, "ledger", "record", "ratings", "--gaussian", "3", "--json")
    assert done.code == 2
    assert "--reason" in error(done)["message"]
    done = dp_release(tmp_path, "ledger", "record", "other", "--reason", "a", "--gaussian", "30",
                      "--sensitivity", "1", "--json")  # fmt: skip
    assert (done.code, error(done)["hint"]) == (2, "The datasets are ratings.")


# ---------------------------------------------------------------------------- an account's life


@pytest.mark.parametrize(
    ("key", "changes"),
    [
        ("budget.epsilon", {"budget": {"epsilon": 2}}),
        ("budget.delta", {"budget": {"delta": Decimal("1e-5")}}),
        ("budget.accountant", {"budget": {"accountant": "zcdp"}}),
        ("budget.threshold_share", {"budget": {"threshold_share": Decimal("0.1")}}),
        ("unit", {"dataset": {"unit": "category"}}),
        ("time_zone", {"dataset": {"time_zone": "UTC"}}),
    ],
)
def test_what_opening_fixed_cannot_be_changed(
    tmp_path: Path, key: str, changes: dict[str, Any]
) -> None:
    write_project(tmp_path)
    assert dp_release(tmp_path, "open").code == 0
    before = entries(tmp_path)
    write_project(tmp_path, **changes)
    commands = (["check"], ["plan"], ["open"], ["run", "--now", after_weeks(1)])
    for command in [*commands, ["ledger", "record", "ratings", "--reason", "a", "--gaussian",
                                "30", "--sensitivity", "1"]]:  # fmt: skip
        done = dp_release(tmp_path, *command, "--json")
        assert done.code == 2
        (fault,) = error(done)["faults"]
        assert fault["key"] == f"dataset.ratings.{key}"
        assert "the account was opened with" in fault["found"]
    assert entries(tmp_path) == before
    write_project(tmp_path, budget={"epsilon": Decimal("1.50"), "delta": Decimal("0.000001")})
    assert dp_release(tmp_path, "open").code == 0
    assert entries(tmp_path) == before


def rename(folder: Path, **changes: Any) -> None:
    """The project's dataset under another name, in the place of the one before it."""
    source = {
        "source": "data/ratings.parquet",
        "unit": "customer_id",
        "time": "rated_at",
        "time_zone": "Europe/London",
        "budget": {"epsilon": Decimal("1.5"), "delta": Decimal("1e-6")},
        **changes,
    }
    top = {"title": "Shop", "ledger": "sqlite:///state/ledger.db", "site": "site"}
    (folder / "dp-release.toml").write_text(
        toml({"project": top, "dataset": {"visits": source}}), encoding="utf-8"
    )
    (folder / "jobs" / "mean.toml").write_text(toml(mean_job(dataset="visits")), encoding="utf-8")


def test_an_account_that_replaces_another_opens_with_its_spend(tmp_path: Path) -> None:
    write_project(tmp_path)
    assert dp_release(tmp_path, "run", "--now", after_weeks(2)).code == 0
    rename(tmp_path, replaces="ratings")
    done = dp_release(tmp_path, "plan", "--json")
    assert (done.code, error(done)["hint"]) == (2, "Run `dp-release open` first.")
    assert dp_release(tmp_path, "open").code == 0
    old, new = dp_release(tmp_path, "budget", "--json").document["accounts"]
    assert (old["name"], new["name"]) == ("ratings", "visits")
    for key in ("spent", "filter", "left"):
        assert new[key] == old[key]
    assert new["filter"]["spent"] > 0
    record = [entry for entry in entries(tmp_path) if entry["account"] == "visits"]
    assert [entry["kind"] for entry in record] == ["open", "project", "record"]
    # What is left is what was left: half of the budget less two of ten releases.
    (job,) = dp_release(tmp_path, "plan", "--json").document["jobs"]
    assert job["fit"]["gdp"] == 10
    assert dp_release(tmp_path, "open").code == 0
    assert [one for one in entries(tmp_path) if one["account"] == "visits"] == record


@pytest.mark.parametrize(
    ("spent", "budget", "code", "said"),
    [
        ("--gaussian 4 --sensitivity 1", {"epsilon": 1}, 3, "does not allow this charge"),
        ("--gaussian 4 --sensitivity 1", {"accountant": "zcdp"}, 0, ""),
        (f"{' '.join(ONE_ROUND)} --steps 5", {"epsilon": 8}, 2, "a gdp account cannot take"),
    ],
)
def test_an_account_into_which_the_old_spend_does_not_fit_is_not_opened(
    tmp_path: Path, spent: str, budget: dict[str, Any], code: int, said: str
) -> None:
    write_project(tmp_path, budget={"accountant": "rdp", "epsilon": 4})
    assert record(tmp_path, *spent.split()).code == 0
    before = entries(tmp_path)
    rename(tmp_path, replaces="ratings", budget={"epsilon": 4, "delta": Decimal("1e-6"), **budget})
    done = dp_release(tmp_path, "open", "--json")
    assert done.code == code
    assert not said or said in error(done)["message"]
    assert len(entries(tmp_path)) == len(before) + (3 if code == 0 else 0)


def test_an_account_that_replaces_none_that_was_opened(tmp_path: Path) -> None:
    write_project(tmp_path)
    rename(tmp_path, replaces="rating")
    for command in ("check", "plan", "open", "run"):
        done = dp_release(tmp_path, command, "--json")
        assert done.code == 2
        (fault,) = error(done)["faults"]
        assert fault["key"] == "dataset.visits.replaces"
        assert "no account of that name" in fault["found"]
    assert not (tmp_path / "state").exists()


def test_one_replaced_while_it_still_is_a_dataset(tmp_path: Path) -> None:
    write_project(tmp_path, dataset={"replaces": "ratings"})
    with pytest.raises(ConfigError) as raised:
        config.read(tmp_path)
    (fault,) = raised.value.faults
    assert (fault.key, "still a dataset" in fault.found) == ("dataset.ratings.replaces", True)


# ---------------------------------------------------------------------------- replay

EVENTS: list[Event] = [
    Gaussian(1, 30),
    Gaussian(1, 30, 3),
    Laplace(1, 50),
    Composed((Gaussian(1, 7), Gaussian(2, 9))),
]


@given(st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 3)), max_size=12))
def test_replayed_rows_are_the_charges_one_by_one(uses: list[tuple[Event, int]]) -> None:
    spend, rows = Spend(), []
    for event, more in uses:
        charged = (Spend().plus(event).rho or 0) + more if more else 0
        spend = spend.plus(event, charged=charged)
        rows.append((json.dumps(event.to_json()), charged))
    assert replay(rows) == replay(reversed(rows)) == spend


def test_a_row_that_describes_no_event_is_not_replayed() -> None:
    with pytest.raises(AccountingError):
        replay([('{"type": "gauss"}', 1)])
