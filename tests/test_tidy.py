"""Holds the checkout to the house rules of ``tests/tidy.py``.

Each rule is also tried on planted faults that it must find, and where it has an exception on
cases that it must let pass.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.tidy import (
    ENGINE_CALLS,
    FUNCTION_LINES,
    LAYOUT,
    MODULE_LINES,
    RULES,
    SPELLINGS,
    Rule,
    clock_reads,
    direction_of_imports,
    engine_constructs,
    fast_start,
    fences,
    global_state,
    import_cycles,
    integer_casts,
    one_spelling,
    site_reads_the_ledger_only,
    sizes,
)

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parent.parent

# ---------------------------------------------------------------------------- the checkout

TEXTS = "*.md *.toml docs/**/*.md data/*.md jobs/*.toml templates/**/*.* release/**/*.*"
FILES = [
    (path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))
    for pattern in TEXTS.split()
    for path in sorted(ROOT.glob(pattern))
    if path.suffix in {".py", ".md", ".toml", ".html", ".j2", ".jinja", ".xml", ".txt", ".css"}
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_checkout_keeps(rule: Rule) -> None:
    broken = sorted({str(violation) for violation in rule(FILES)})
    assert not broken, "\n" + "\n".join(broken)


def test_the_page_on_how_it_is_built_has_the_layout() -> None:
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    # A folder's name ends in a slash.
    kept = {path.stem + "/" * path.is_dir() for path in (ROOT / "release").iterdir()}
    told = re.findall(r"^\| `([a-z]+/?)` \|", page, re.MULTILINE)
    whole = [name for one in LAYOUT for name in (one, f"{one}/") if name in kept]
    assert told == [name for name in whole if not name.startswith("__")]


def test_the_checkout_is_read() -> None:
    assert {"release/__init__.py", "release/errors.py"} <= {path for path, _ in FILES}


# ---------------------------------------------------------------------------- the rules can fail

MARK = "<- fault"  # on the lines that a rule must find, and no other
LONG = f"x = 1  # {MARK}\n" + "x = 1\n" * MODULE_LINES
LONG_FUNCTION = f"def f():  # {MARK}\n" + "    print()\n" * FUNCTION_LINES
QUIET_FUNCTION = (
    'def f():\n    """Long.\n\n' + "    Text.\n" * 60 + '    """\n' + "    # so\n" * 60
)

CASES: list[tuple[Rule, dict[str, str]]] = [
    (direction_of_imports, {"release/errors.py": f"import re\nimport release.cli  # {MARK}"}),
    (direction_of_imports, {"release/noise.py": f"from . import audit  # {MARK}"}),
    (direction_of_imports, {"release/utils.py": f"x = 1  # {MARK}"}),
    (
        direction_of_imports,
        {"release/ledger/tables.py": f"def f():\n    from ..site import page  # {MARK}"},
    ),
    (
        direction_of_imports,
        {
            "release/ledger/append.py": "from release.ledger import tables\nfrom .. import specs",
            "release/cli.py": "from release import __version__, project",
        },
    ),
    (
        import_cycles,
        {
            "release/site/__init__.py": "from release.site.pages import build",
            "release/site/pages.py": f"def f():\n    from . import build  # {MARK}",
        },
    ),
    (
        import_cycles,
        {
            "release/site/__init__.py": "from release.site.pages import build",
            "release/site/pages.py": "from release.site import charts",
            "release/site/charts.py": "if TYPE_CHECKING:\n    from .pages import Page",
        },
    ),
    (site_reads_the_ledger_only, {"release/site.py": f"from . import pipeline  # {MARK}"}),
    (
        site_reads_the_ledger_only,
        {
            "release/site/pages.py": f"import release.ledger\nfrom ..bounding import x  # {MARK}",
            "release/pipeline.py": "from release import sources, ledger",
        },
    ),
    (fences, {"release/specs.py": f"import pandas as pd  # {MARK}"}),
    (fences, {"release/site/pages.py": f"from sqlalchemy.orm import Session  # {MARK}"}),
    (fences, {"release/ledger/rows.py": f"from jinja2 import Template  # {MARK}"}),
    (fences, {"release/audit.py": f"def f():\n    import dp_accounting.pld  # {MARK}"}),
    (fences, {"release/noise.py": f"import random  # {MARK}"}),
    (fences, {"release/noise.py": f"import numpy as np\nx = np.random.default_rng()  # {MARK}"}),
    (fences, {"release/mechanisms.py": f"import os as o\nx = o.urandom(8)  # {MARK}"}),
    (fences, {"release/pipeline.py": f"from secrets import token_hex  # {MARK}"}),
    (fences, {"release/statistics.py": f"import scipy\nx = scipy.stats.norm  # {MARK}"}),
    (fences, {"release/windows.py": f"import time\ndef f(clock=time.time): ...  # {MARK}"}),
    (fences, {"release/site/feed.py": f"from time import monotonic  # {MARK}"}),
    (
        fences,
        {
            "release/bounding/expressions.py": "import ibis",
            "release/sources.py": "import pandas.api.types\nimport pyspark",
            "release/ledger/accounts.py": "import secrets, time\nx = time.monotonic()",
            "release/noise.py": "import os\nx = os.urandom(8)",
            "release/scheduler.py": "from datetime import datetime\nx = datetime.now()",
        },
    ),
    (clock_reads, {"release/project.py": f"x = dt.datetime.now(zone)  # {MARK}"}),
    (clock_reads, {"release/ledger/rows.py": f"x = func.now()  # {MARK}"}),
    (clock_reads, {"release/cli.py": "x = datetime.now()", "release/project.py": "x = run.now"}),
    (fast_start, {"release/cli.py": f"import typer\nimport numpy as np  # {MARK}"}),
    (fast_start, {"release/cli/run.py": f"try:\n    import rich.table  # {MARK}\nfinally: ..."}),
    (
        fast_start,
        {
            "release/cli.py": "def f():\n    import rich\nif TYPE_CHECKING:\n    import pandas",
            "release/noise.py": "import numpy",
        },
    ),
    *(
        (engine_constructs, {"release/bounding.py": f"x = 1\ny = t.c.{name}()  # {MARK}"})
        for name in ENGINE_CALLS
    ),
    (engine_constructs, {"release/sources/spark.py": f"x = round(y)  # {MARK}"}),
    (engine_constructs, {"release/bounding.py": f"x = y // 2  # {MARK}"}),
    (engine_constructs, {"release/bounding.py": f"x = y ** 2  # {MARK}\nf(**x)"}),
    (engine_constructs, {"release/bounding.py": f"import ibis\nx = ibis.random()  # {MARK}"}),
    (engine_constructs, {"release/statistics.py": "x = math.exp(y) ** 2 // 1"}),
    (engine_constructs, {"release/bounding.py": "w = f(order_by=[a])\nx = ONE**2 * a / b"}),
    (integer_casts, {"release/bounding.py": f"x = t.v.cast('int64')  # {MARK}"}),
    (integer_casts, {"release/bounding.py": f"x = t.v.cast(dt.int32)  # {MARK}"}),
    (integer_casts, {"release/bounding.py": f"x = t.cast(target_type='!int64')  # {MARK}"}),
    (
        integer_casts,
        {
            "release/bounding.py": "def truncate(x):\n    return x.cast('int64')",
            "release/sources.py": f"def truncate(x):  # {MARK}\n    return x.cast('int64')",
        },
    ),
    (integer_casts, {"release/bounding.py": "x = t.v.cast('float64')\ny = cast(int, x)"}),
    *(
        (one_spelling, {"docs/guarantee.md": f"We say\nthat {wrong} is meant. {MARK}"})
        for wrong in (
            "privacy-unit", "Neighboring", "adjacent datasets", "z-CDP", "Renyi", "leader board",
            "data set", "contribution limits", "privacy-loss budget",
        )
    ),
    (one_spelling, {"release/specs.py": f"# a ZCDP cost {MARK}\nclass ZCDP: ..."}),
    (one_spelling, {"README.md": "zCDP, `zcdp`, data set aside, https://a.org/renyi-neighboring"}),
    (sizes, {"release/specs.py": LONG}),
    (sizes, {"release/specs.py": LONG_FUNCTION}),
    (sizes, {"release/specs.py": QUIET_FUNCTION + "\n" * MODULE_LINES}),
    (global_state, {"release/specs.py": f"seen = []\ndef f(x):\n    seen.append(x)  # {MARK}"}),
    (
        global_state,
        {"release/specs.py": f"A: dict[str, int] = {{}}\ndef f(x):\n    A[x] = 1  # {MARK}"},
    ),
    (global_state, {"release/specs.py": f"x = 1\ndef f():\n    global x  # {MARK}\n    x = 2"}),
    (
        global_state,
        {"release/specs.py": "A = {}\nb = []\ndef f(x, b):\n    b.append(A[x])\n    x[1] = 2"},
    ),
]  # fmt: skip


def marked(files: dict[str, str]) -> set[tuple[str, int]]:
    lines = ((path, source.splitlines()) for path, source in files.items())
    return {(path, at) for path, text in lines for at, line in enumerate(text, 1) if MARK in line}


@pytest.mark.parametrize(("rule", "files"), CASES)
def test_a_rule_finds_the_planted_faults_and_nothing_else(
    rule: Rule, files: dict[str, str]
) -> None:
    found = {(violation.path, violation.line) for violation in rule(files.items())}
    assert found == marked(files)


def test_every_rule_has_been_seen_to_fail() -> None:
    assert set(RULES) == {rule for rule, files in CASES if marked(files)}


def test_every_spelling_has_been_seen_to_fail() -> None:
    texts = [
        (path, text)
        for rule, files in CASES
        if rule is one_spelling
        for path, text in files.items()
    ]
    said = {str(violation).rpartition("“")[2].rstrip("”") for violation in one_spelling(texts)}
    assert said == set(SPELLINGS.values())


# ---------------------------------------------------------------------------- no test is skipped

SKIPS = """
import pytest

def test_passes(): ...
def test_skips(): pytest.skip("no engine")
@pytest.mark.skip(reason="not today")
def test_marked(): ...
def test_absent(): pytest.skip("data absent: flights")
@pytest.mark.xfail
def test_known(): assert False
"""


@pytest.mark.parametrize(
    ("setting", "outcomes"),
    [
        ("", {"passed": 1, "skipped": 3, "xfailed": 1}),
        ("1", {"passed": 1, "skipped": 1, "xfailed": 1, "failed": 1, "errors": 1}),
    ],
)
def test_ci_takes_a_skipped_test_for_a_failed_one(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    setting: str,
    outcomes: dict[str, int],
) -> None:
    monkeypatch.setenv("DP_RELEASE_NO_SKIP", setting)
    pytester.makeconftest((ROOT / "tests/conftest.py").read_text(encoding="utf-8"))
    pytester.makepyfile(SKIPS)
    pytester.runpytest().assert_outcomes(**outcomes)


def test_ci_takes_a_skipped_module_for_a_failed_one(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DP_RELEASE_NO_SKIP", "1")
    pytester.makeconftest((ROOT / "tests/conftest.py").read_text(encoding="utf-8"))
    pytester.makepyfile("import pytest\npytest.importorskip('no_such_engine')")
    pytester.runpytest().assert_outcomes(errors=1)
