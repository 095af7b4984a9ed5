"""What a project's files may not hold. Each file of ``jobs/bad`` and ``jobs/bad-projects`` is
wrong in one way, is named after it, and gives the one fault that stands here."""

from __future__ import annotations

import json
import shutil
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from release.config import LEDGER_VARIABLE, PROJECT_FILE, Files, read
from release.errors import ConfigError, Fault
from release.specs import ASCII_SPACE, Condition, Job, label
from tests.command import dp_release
from tests.projects import (
    GROUPS,
    count_job,
    leaderboard_job,
    mean_job,
    toml,
    write_project,
)

CORPUS = Path(__file__).parent / "jobs"

LINE = "(empty, or holds a control character)"
SIZE = "too large or too close to 0"
BOUNDS = "two numbers, lower below upper"
LIST = "a list, a .txt file"
GROUP_LIST = "a public list of distinct names"
COUNT = "a whole number from 1 to 1048576"
FIRST = "the first date of the first window, from 1900-01-01 to 2199-12-31"
KIND = 'kind = "count", "sum", "mean" or "leaderboard"'
SENSE = "beyond all sense"
COLUMN = "the name of a column"
SHARE = "a number above 0 and at most 1"
LEVEL = "a number from 0.5 to 0.9999"
COMPARED = "a number for <, <=, > and >=; a text, a number or a truth value for = and !=; a list"
NORM = "a number from 1 to below max_rows_per_group times the square root of max_groups"
SEEN = "a whole number from max_groups to 1048576, where groups are discovered"
PRIOR = "about where means lie, within the bounds"
COUNT_SHARE = "the count's part of ρ, above 0 and below 1"
WHERE = 'a list of tables such as { column = "age", operator = ">=", value = 18 }'
MEASURES = '`value` and `bounds` are needed for of = "mean", and only there'
NOISE = "a table such as { releases = 10, share = 0.5 }"

# The file's name: the key at fault, part of what was found, part of what is allowed.
BAD_JOBS = {
    "bounding-unknown": ("contribution.bounding", "is 'scale'", '"clip" (shrink'),
    "bounds-infinite": ("statistic.bounds.1", "is Infinity", BOUNDS),
    "bounds-missing": ("statistic.bounds", "is missing", BOUNDS),
    "bounds-nan": ("statistic.bounds.0", "is NaN", BOUNDS),
    "bounds-of-a-leaderboard-of-counts": ("statistic", MEASURES, KIND),
    "bounds-of-one": ("statistic.bounds.1", "is missing", BOUNDS),
    "bounds-of-three": ("statistic.bounds", "is a list of 3", BOUNDS),
    "bounds-one-number": ("statistic.bounds", "is 5", BOUNDS),
    "bounds-text": ("statistic.bounds.1", "is '5' (not a number)", BOUNDS),
    "bounds-too-close": ("statistic.bounds", "too close together", BOUNDS),
    "bounds-too-large": ("statistic.bounds.1", f"is 1E+309 ({SIZE})", BOUNDS),
    "bounds-true": ("statistic.bounds.0", "is false (not a number)", BOUNDS),
    "by-empty": ("statistic.by", f"is '' {LINE}", COLUMN),
    "by-empty-in-a-list": ("statistic.by", "empty, or holds a control", COLUMN),
    "by-empty-list": (
        "statistic.by",
        "neither the name of a column nor a list of such names",
        COLUMN,
    ),
    "by-missing": ("statistic.by", "is missing", COLUMN),
    "by-number-in-a-list": (
        "statistic.by",
        "neither the name of a column nor a list of such names",
        COLUMN,
    ),
    "by-twice": ("statistic.by", "names a column twice", COLUMN),
    "contribution-missing": ("contribution", "is missing", "max_rows_per_group = 1"),
    "count-of-people": ("statistic.of", "is 'people'", '"rows" or "units"'),
    "count-of-units-with-several-rows": (
        "contribution",
        "a count of units needs max_rows_per_group = 1",
        "max_rows_per_group = 1",
    ),
    "count-share-one": ("statistic.count_share", "is 1", COUNT_SHARE),
    "count-share-text": ("statistic.count_share", "is 'half' (not a number)", COUNT_SHARE),
    "count-share-zero": ("statistic.count_share", "is 0", COUNT_SHARE),
    "count-with-a-value": (
        "statistic.value",
        "is an unknown key",
        "known here are by, groups, kind, of",
    ),
    "dataset-missing": ("dataset", "is missing", "the name of a [dataset.…]"),
    "dataset-unknown": ("dataset", "no account covers 'rating'", f"{PROJECT_FILE}: ratings"),
    "delta0-of-listed-groups": ("noise", "delta0 is for discovered groups", NOISE),
    "delta0-zero": ("noise.delta0", "is 0", "a number above 0 and below 1"),
    "digits-beyond-all-sense": ("", SENSE, "mend"),
    "discover-for-a-board-of-means": ("statistic", "ranks by means need a public list", KIND),
    "discover-misspelt": ("statistic.groups", "'discovered' is neither a .txt nor a .csv", LIST),
    "discover-with-rho-alone": ("noise", "discovered groups need `delta0` beside `rho`", NOISE),
    "discover-without-a-share-of-delta": (
        "statistic.groups",
        "is 'discover', which spends δ, and [dataset.ratings] sets none aside",
        "budget.threshold_share, such as 0.1",
    ),
    "groups-empty": ("statistic.groups", "is a list of 0", GROUP_LIST),
    "groups-file-key": ("statistic.groups_file", "unknown key", "`groups`, as in groups ="),
    "groups-file-malformed": ("statistic.groups", "'malformed.csv' is not CSV", LIST),
    "groups-file-missing": ("statistic.groups", "'groups/absent.csv' cannot be read", LIST),
    "groups-file-not-utf-8": ("statistic.groups", "'latin-1.txt' is not UTF-8 text", LIST),
    "groups-file-of-another-kind": ("statistic.groups", "neither a .txt nor a .csv", LIST),
    "groups-file-twice": ("statistic.groups", "names 'Tea' twice", GROUP_LIST),
    "groups-file-with-a-column-twice": (
        "statistic.groups",
        "'column-twice.csv' has several columns 'city'",
        LIST,
    ),
    "groups-file-with-a-short-line": (
        "statistic.groups",
        "'short.csv' has a line that ends before its last name",
        LIST,
    ),
    "groups-file-without-names": ("statistic.groups", "holds no name", LIST),
    "groups-file-without-the-column": ("statistic.groups", "has no column 'category'", LIST),
    "groups-file-without-the-second-column": (
        "statistic.groups",
        "'one-of-two.csv' has no column 'city'",
        LIST,
    ),
    "groups-missing": ("statistic.groups", "is missing", GROUP_LIST),
    "groups-nameless": ("statistic.groups", "holds an empty name", GROUP_LIST),
    "groups-nameless-in-one-of-two-columns": (
        "statistic.groups",
        "holds an empty name",
        GROUP_LIST,
    ),
    "groups-nested-in-names": (
        "statistic.groups.0",
        "neither a text nor a whole number",
        GROUP_LIST,
    ),
    "groups-of-numbers-with-a-point": ("statistic.groups.1", "is 1.5", GROUP_LIST),
    "groups-of-one-name-for-two-columns": (
        "statistic.groups",
        "holds a group that has not one name for each column of `by`",
        GROUP_LIST,
    ),
    "groups-of-three-names-for-two-columns": (
        "statistic.groups",
        "holds a group that has not one name for each column of `by`",
        GROUP_LIST,
    ),
    "groups-of-two-names-for-one-column": (
        "statistic.groups",
        "holds a group that has not one name for each column of `by`",
        GROUP_LIST,
    ),
    "groups-one-number": ("statistic.groups", "is 7", GROUP_LIST),
    "groups-table-for-one-column": (
        "statistic.groups",
        "a table of lists is for several columns, and `by` names one",
        LIST,
    ),
    "groups-table-of-a-number": (
        "statistic.groups",
        "the table of lists holds something that is no list",
        LIST,
    ),
    "groups-table-of-a-table": (
        "statistic.groups",
        "the table of lists holds something that is no list",
        LIST,
    ),
    "groups-table-too-large": (
        "statistic.groups",
        "the lists together make 1050625 groups, more than 1048576",
        LIST,
    ),
    "groups-seen-below-max-groups": (
        "contribution.max_groups_seen",
        "is 2 (less than max_groups)",
        SEEN,
    ),
    "groups-seen-of-listed-groups": (
        "contribution",
        "max_groups_seen is for discovered groups",
        "max_rows_per_group = 1",
    ),
    "groups-seen-with-sample": (
        "contribution.max_groups_seen",
        'is 9 (goes with bounding = "clip" alone',
        SEEN,
    ),
    "groups-table-with-a-name-twice": ("statistic.groups", "names 'Tea / Oslo' twice", GROUP_LIST),
    "groups-table-with-an-empty-list": ("statistic.groups", "is a list of 0", GROUP_LIST),
    "groups-table-with-another-column": (
        "statistic.groups",
        "the table of lists has one for 'town', which `by` is without",
        LIST,
    ),
    "groups-table-without-a-column": (
        "statistic.groups",
        "the table of lists has none for 'city' of `by`",
        LIST,
    ),
    "groups-true": ("statistic.groups.1", "is true", GROUP_LIST),
    "groups-twice": ("statistic.groups", "names 'Tea' twice", GROUP_LIST),
    "groups-twice-as-number-and-text": ("statistic.groups", "names '7' twice", GROUP_LIST),
    "groups-twice-but-for-spaces": ("statistic.groups", "names 'Tea' twice", GROUP_LIST),
    "groups-twice-in-nfc-and-nfd": ("statistic.groups", "twice", GROUP_LIST),
    "groups-twice-of-two-columns": ("statistic.groups", "names 'Tea / Lyon' twice", GROUP_LIST),
    "groups-txt-for-two-columns": (
        "statistic.groups",
        "'names.txt' has one name a line, and `by` names 2",
        LIST,
    ),
    "key-twice": ("", "is not TOML: Cannot overwrite a value (at line 21", "mend the syntax"),
    "kind-missing": ("statistic.kind", "is missing", KIND),
    "kind-unknown": ("statistic.kind", "is 'median'", KIND),
    "leaderboard-of-means-without-bounds": ("statistic", MEASURES, KIND),
    "leaderboard-of-means-without-value": ("statistic", MEASURES, KIND),
    "leaderboard-of-sums": ("statistic.of", "is 'sum'", '"count" or "mean"'),
    "level-nan": ("level", "is NaN", LEVEL),
    "level-percent": ("level", "is 95", LEVEL),
    "level-text": ("level", "is '95 %' (not a number)", LEVEL),
    "level-too-high": ("level", "is 0.99991", LEVEL),
    "level-too-low": ("level", "is 0.49", LEVEL),
    "lower-above-upper": ("statistic.bounds", "not below the upper", BOUNDS),
    "lower-is-upper": ("statistic.bounds", "not below the upper", BOUNDS),
    "max-groups-beyond-all-sense": ("contribution.max_groups", "a very large number", COUNT),
    "max-groups-missing": ("contribution.max_groups", "is missing", COUNT),
    "max-groups-too-many": ("contribution.max_groups", "is 1048577", COUNT),
    "max-groups-true": ("contribution.max_groups", "is true", COUNT),
    "max-groups-with-a-point": ("contribution.max_groups", "is 3.0", COUNT),
    "max-groups-zero": ("contribution.max_groups", "is 0", COUNT),
    "max-norm-below-one": ("contribution.max_norm", "is 0.999", NORM),
    "max-norm-infinite": ("contribution.max_norm", "is Infinity", NORM),
    "max-norm-nan": ("contribution.max_norm", "is NaN", NORM),
    "max-norm-negative": ("contribution.max_norm", "is -2", NORM),
    "max-norm-text": ("contribution.max_norm", "is '2' (not a number)", NORM),
    "max-norm-too-large": (
        "contribution.max_norm",
        "is 4.0 (would change nothing: the other bounds are tighter)",
        NORM,
    ),
    "max-norm-true": ("contribution.max_norm", "is true (not a number)", NORM),
    "max-norm-where-a-unit-has-one-row": (
        "contribution.max_norm",
        "is 1 (would change nothing: the other bounds are tighter)",
        NORM,
    ),
    "max-norm-with-sample": (
        "contribution.max_norm",
        'is 2 (goes with bounding = "clip" alone)',
        NORM,
    ),
    "max-norm-zero": ("contribution.max_norm", "is 0", NORM),
    "max-rows-missing": ("contribution.max_rows_per_group", "is missing", COUNT),
    "max-rows-negative": ("contribution.max_rows_per_group", "is -1", COUNT),
    "max-rows-too-many": ("contribution.max_rows_per_group", "is 1048577", COUNT),
    "name-given": ("name", "unknown key", "the name here is 'job'"),
    "neither-releases-nor-rho": ("noise", "exactly one of `releases` and `rho`", NOISE),
    "nested-beyond-all-sense": ("", SENSE, "mend"),
    "noise-missing": ("noise", "is missing", NOISE),
    "not-toml": ("", "is not TOML: Invalid value (at line 1, column 12)", "mend the syntax"),
    "number-beyond-all-sense": ("", SENSE, "mend"),
    "origin-empty": ("statistic.origin", f"is '' {LINE}", "known without the data"),
    "prior-mean-and-count-share": (
        "statistic.prior_mean",
        "is 4 (`count_share` already says how to split ρ: give one of them)",
        PRIOR,
    ),
    "prior-mean-nan": ("statistic.prior_mean", "is NaN", PRIOR),
    "prior-mean-of-a-count": (
        "statistic.prior_mean",
        "is an unknown key",
        "known here are by, groups, kind, of",
    ),
    "prior-mean-outside-of-the-bounds": (
        "statistic.prior_mean",
        "is 5.01 (outside of the bounds)",
        PRIOR,
    ),
    "publish-number": ("publish.rounded", "is 1", "true or false"),
    "publish-text": ("publish", "is 'all'", "{ nonnegative = false }"),
    "publish-unknown-key": (
        "publish.non_negative",
        "is an unknown key",
        "did you mean `nonnegative`?",
    ),
    "releases-and-rho": ("noise", "exactly one of `releases` and `rho`", NOISE),
    "releases-text": ("noise.releases", "is '10'", "a whole number of releases"),
    "releases-true": ("noise.releases", "is true", "a whole number of releases"),
    "releases-zero": ("noise.releases", "is 0", "a whole number of releases, at least 1"),
    "rho-infinite": ("noise.rho", "is Infinity", "a number"),
    "rho-nan": ("noise.rho", "is NaN", "a number"),
    "rho-negative": ("noise.rho", "is -0.01", "a number"),
    "rho-too-large": ("noise.rho", f"is 1E+999999 ({SIZE})", "a number"),
    "rho-too-little": ("noise.rho", "is 9.99E-10", "a number, at least 1E-9"),
    "rho-zero": ("noise.rho", "is 0.0", "a number"),
    "schedule-missing": ("schedule", "is missing", '"daily", "weekly"'),
    "schedule-not-allowed": ("schedule", "is 'fortnightly'", '"daily", "weekly"'),
    "share-above-one": ("noise.share", "is 1.01", SHARE),
    "share-of-too-many-digits": ("noise.share", "(more than 1000 digits)", SHARE),
    "share-text": ("noise.share", "is 'half' (not a number)", SHARE),
    "share-too-small": ("noise.share", f"is 1E-999999999 ({SIZE})", SHARE),
    "share-zero": ("noise.share", "is 0", SHARE),
    "start-after-2199": ("start", "is 9999-12-27", FIRST),
    "start-before-1900": ("start", "is 0001-01-01", FIRST),
    "start-inside-a-quarter": ("start", "inside the quarter that begins on 2026-01-01", FIRST),
    "start-inside-a-week": ("start", "inside the week that begins on 2026-01-05", FIRST),
    "start-missing": ("start", "is missing", FIRST),
    "start-text": ("start", "is '2026-01-05'", FIRST),
    "start-with-a-time": ("start", "is 2026-01-05 00:00:00", FIRST),
    "statistic-missing": ("statistic", "is missing", KIND),
    "statistic-text": ("statistic", "is 'mean'", KIND),
    "sum-without-bounds": ("statistic.bounds", "is missing", BOUNDS),
    "sum-without-value": ("statistic.value", "is missing", COLUMN),
    "title-empty": ("title", f"is ' ' {LINE}", "one line"),
    "title-missing": ("title", "is missing", "one line"),
    "title-nested-in-keys": ("title", "is a table", "one line"),
    "title-number": ("title", "is 2026", "one line"),
    "title-of-two-lines": ("title", f"is 'One\\nTwo' {LINE}", "one line"),
    "top-missing": ("statistic.top", "is missing", "a whole number, at least 1"),
    "top-with-a-point": ("statistic.top", "is 2.0", "a whole number, at least 1"),
    "top-zero": ("statistic.top", "is 0", "a whole number, at least 1"),
    "unknown-key": ("titel", "unknown key", "did you mean `title`?"),
    "unknown-key-in-contribution": (
        "contribution.max_row_per_group",
        "unknown key",
        "did you mean `max_rows_per_group`?",
    ),
    "unknown-key-in-noise": (
        "noise.sigma",
        "unknown key",
        "known here are delta0, releases, rho, share",
    ),
    "unknown-key-in-statistic": ("statistic.clamp", "unknown key", "known here are bounds, by"),
    "value-list": ("statistic.value", "is a list of 1", COLUMN),
    "value-missing": ("statistic.value", "is missing", COLUMN),
    "where-column-empty": ("statistic.where.0.column", f"is ' ' {LINE}", COLUMN),
    "where-column-missing": ("statistic.where.0.column", "is missing", COLUMN),
    "where-list-after-equals": ("statistic.where.0.value", "a list after '='", COMPARED),
    "where-list-after-less": ("statistic.where.0.value", "a list after '<'", COMPARED),
    "where-list-empty": ("statistic.where.0.value", "an empty list", COMPARED),
    "where-list-mixed": ("statistic.where.0.value", "a list of more than one sort", COMPARED),
    "where-list-nested": (
        "statistic.where.0.value",
        "neither a text, a number nor a truth value",
        COMPARED,
    ),
    "where-list-of-numbers-and-truth": (
        "statistic.where.0.value",
        "a list of more than one sort",
        COMPARED,
    ),
    "where-no-list-after-in": ("statistic.where.0.value", "is 18 (no list after 'in')", COMPARED),
    "where-not-a-list": ("statistic.where", "is a table", WHERE),
    "where-operator-missing": ("statistic.where.0.operator", "is missing", '"=", "!="'),
    "where-operator-unknown": ("statistic.where.0.operator", "is 'like'", '"=", "!="'),
    "where-text": ("statistic.where.0", "is 'age >= 18'", WHERE),
    "where-text-has-no-order": (
        "statistic.where.0.value",
        "is 'Oslo' (no number after '<')",
        COMPARED,
    ),
    "where-truth-has-no-order": (
        "statistic.where.0.value",
        "is true (no number after '>=')",
        COMPARED,
    ),
    "where-unknown-key": (
        "statistic.where.0.colunm",
        "is an unknown key",
        "did you mean `column`?",
    ),
    "where-value-beyond-all-sense": (
        "statistic.where.0.value",
        f"is 1E+999999 ({SIZE})",
        COMPARED,
    ),
    "where-value-date": (
        "statistic.where.0.value",
        "neither a text, a number nor a truth value",
        COMPARED,
    ),
    "where-value-empty": (
        "statistic.where.0.value",
        "is ' ' (an empty text, which no row has)",
        COMPARED,
    ),
    "where-value-infinite": (
        "statistic.where.0.value",
        "is -Infinity (not a number)",
        COMPARED,
    ),
    "where-value-missing": ("statistic.where.0.value", "is missing", COMPARED),
    "where-value-nan": (
        "statistic.where.0.value",
        "is NaN (not a number)",
        COMPARED,
    ),
    "where-value-table": (
        "statistic.where.0.value",
        "neither a text, a number nor a truth value",
        COMPARED,
    ),
    "where-value-too-large": (
        "statistic.where.0.value",
        "is 9007199254740992 (not below 2^53 in size)",
        COMPARED,
    ),
    "window-missing": ("window", "is missing", '"day" or "week" or "month"'),
    "window-not-allowed": ("window", "is 'fortnight'", '"day" or "week" or "month"'),
}
# Wrong only beside the job that the project already has.
BAD_TOGETHER = {
    "share-missing": ("noise.share", "the 2 jobs on 'ratings' add up to 1.5", "at most 1"),
    "shares-above-one": ("noise.share", "the 2 jobs on 'ratings' add up to 1.000001", "at most 1"),
}
DATASET = "dataset.ratings"
BUDGET = f"{DATASET}.budget"
ADDRESS = '"sqlite:///state/ledger.db"'
ZONE = "an IANA time zone"
EPSILON = "a number from 0 to 1000000"
DELTA = "a number above 0 and below 1"
PART = "the part of δ for thresholds, at least 0 and below 1"
WAIT = "above 0 and at most 3600"
BAD_PROJECTS = {
    "accountant-unknown": (f"{BUDGET}.accountant", "is 'pld'", '"gdp" (the default)'),
    "budget-missing": (BUDGET, "is missing", "{ epsilon = 1.5, delta = 1e-6 }"),
    "budget-number": (BUDGET, "is 1.5", "{ epsilon = 1.5, delta = 1e-6 }"),
    "contact-empty": ("project.contact", f"is '' {LINE}", "one line"),
    "dataset-missing": ("dataset", "is missing", "one table for each dataset"),
    "dataset-name": ("dataset.The ratings", "is not a name", "lower-case letters"),
    "dataset-not-a-table": ("dataset", "is 1", "one table for each dataset"),
    "delta-missing": (f"{BUDGET}.delta", "is missing", DELTA),
    "delta-nan": (f"{BUDGET}.delta", "is NaN", DELTA),
    "delta-negative": (f"{BUDGET}.delta", "is -0.000001", DELTA),
    "delta-one": (f"{BUDGET}.delta", "is 1", DELTA),
    "delta-too-close-to-zero": (f"{BUDGET}.delta", SIZE, DELTA),
    "delta-zero": (f"{BUDGET}.delta", "is 0", DELTA),
    "epsilon-infinite": (f"{BUDGET}.epsilon", "is Infinity", EPSILON),
    "epsilon-missing": (f"{BUDGET}.epsilon", "is missing", EPSILON),
    "epsilon-nan": (f"{BUDGET}.epsilon", "is NaN", EPSILON),
    "epsilon-negative": (f"{BUDGET}.epsilon", "is -1.5", EPSILON),
    "epsilon-text": (f"{BUDGET}.epsilon", "is '1.5' (not a number)", EPSILON),
    "epsilon-too-close-to-zero": (f"{BUDGET}.epsilon", SIZE, EPSILON),
    "epsilon-too-large": (f"{BUDGET}.epsilon", "is 1000001", EPSILON),
    "epsilon-true": (f"{BUDGET}.epsilon", "is true (not a number)", EPSILON),
    "ledger-missing": ("project.ledger", "is missing", ADDRESS),
    "ledger-of-another-kind": ("project.ledger", "is not the address of", ADDRESS),
    "ledger-path": ("project.ledger", "is not the address of", ADDRESS),
    "ledger-with-a-password": ("project.ledger", "is not the address of", ADDRESS),
    "ledger-without-a-file": ("project.ledger", "is not the address of", ADDRESS),
    "level-text": ("project.level", "is '0.9' (not a number)", LEVEL),
    "level-too-high": ("project.level", "is 1", LEVEL),
    "level-too-low": ("project.level", "is 0.1", LEVEL),
    "name-given": (f"{DATASET}.name", "unknown key", "the name here is 'ratings'"),
    "not-toml": ("", "is not TOML: Expected ']'", "mend the syntax"),
    "number-beyond-all-sense": ("", SENSE, "mend"),
    "one-source-twice": ("dataset", "2 datasets read 'customer_id'", "one dataset, shared"),
    "population-text": (f"{DATASET}.population", "is '20000'", "how many units"),
    "population-true": (f"{DATASET}.population", "is true", "how many units"),
    "population-with-a-point": (f"{DATASET}.population", "is 2E+4", "how many units"),
    "population-zero": (f"{DATASET}.population", "is 0", "how many units"),
    "project-missing": ("project", "is missing", "title, ledger and site"),
    "reason-of-two-lines": (f"{BUDGET}.reason", LINE, "one line"),
    "replaced-twice": ("dataset", "2 datasets replace 'orders'", "by one other"),
    "replaces-a-dataset": (
        f"{DATASET}.replaces",
        "is 'visits', which is still",
        "[dataset.visits]",
    ),
    "replaces-itself": (f"{DATASET}.replaces", "is 'ratings', which is still", "no longer used"),
    "replaces-number": (f"{DATASET}.replaces", "is 1", "the account whose spend"),
    "replaces-two": (f"{DATASET}.replaces", "is a list of 2", "the account whose spend"),
    "site-among-the-jobs": ("project.site", "is 'jobs/site', which holds", "for the pages alone"),
    "site-holds-a-source": ("project.site", "holds 'site/ratings.parquet'", "the pages alone"),
    "site-holds-the-ledger": ("project.site", "holds 'site/ledger.db'", "for the pages alone"),
    "site-holds-the-project": ("project.site", "holds 'dp-release.toml'", "for the pages alone"),
    "site-missing": ("project.site", "is missing", "the folder"),
    "source-missing": (f"{DATASET}.source", "is missing", ".parquet"),
    "source-number": (f"{DATASET}.source", "is 1", ".parquet"),
    "source-twice-by-another-path": ("dataset", "2 datasets read 'customer_id'", "one dataset"),
    "table-of-a-file": (f"{DATASET}.table", "holds no tables", "but for a .duckdb file"),
    "threshold-share-nan": (f"{BUDGET}.threshold_share", "is NaN", PART),
    "threshold-share-negative": (f"{BUDGET}.threshold_share", "is -0.1", PART),
    "threshold-share-one": (f"{BUDGET}.threshold_share", "is 1", PART),
    "threshold-share-text": (f"{BUDGET}.threshold_share", "is '0.1' (not a number)", PART),
    "time-format-missing": (f"{DATASET}.time_format", "is missing", "keeps its times as text"),
    "time-missing": (f"{DATASET}.time", "is missing", "the column"),
    "time-zone-missing": (f"{DATASET}.time_zone", "is missing", ZONE),
    "time-zone-of-the-machine": (f"{DATASET}.time_zone", "is 'localtime' (no such", ZONE),
    "time-zone-offset": (f"{DATASET}.time_zone", "is '+01:00' (no such", ZONE),
    "time-zone-path": (f"{DATASET}.time_zone", "is '../zoneinfo/UTC' (no such", ZONE),
    "time-zone-unknown": (f"{DATASET}.time_zone", "is 'Europe/Londinium' (no such", ZONE),
    "title-missing": ("project.title", "is missing", "one line"),
    "unit-empty": (f"{DATASET}.unit", f"is '' {LINE}", "the privacy unit"),
    "unit-missing": (f"{DATASET}.unit", "is missing", "the privacy unit"),
    "unknown-key": (f"{DATASET}.timezone", "unknown key", "did you mean `time_zone`?"),
    "unknown-key-in-budget": (f"{BUDGET}.epsilom", "unknown key", "did you mean `epsilon`?"),
    "unknown-table": ("datasets", "unknown key", "did you mean `dataset`?"),
    "wait-text": ("project.ledger_wait", "is '30' (not a number)", WAIT),
    "wait-too-long": ("project.ledger_wait", "is 3601", WAIT),
    "wait-zero": ("project.ledger_wait", "is 0", WAIT),
}

Expected = tuple[str, str, str]


def faults_of(folder: Path) -> tuple[Fault, ...]:
    with pytest.raises(ConfigError) as raised:
        read(folder)
    assert raised.value.exit_code == 2
    return raised.value.faults


def assert_one_fault(folder: Path, file: str, expected: Expected) -> None:
    (fault,) = faults_of(folder)
    key, found, allowed = expected
    assert (fault.file, fault.key) == (file, key)
    assert found in fault.found
    assert allowed in fault.allowed


def with_job(folder: Path, error: str) -> Path:
    write_project(folder, rows=[])
    shutil.copytree(CORPUS / "bad" / "groups", folder / "groups")
    shutil.copy(CORPUS / "bad" / f"{error}.toml", folder / "jobs" / "job.toml")
    return folder


def names_in(folder: str) -> set[str]:
    return {path.stem for path in (CORPUS / folder).glob("*.toml")}


# ---------------------------------------------------------------------------- the corpus


def test_the_corpus_and_the_tables_name_the_same_errors() -> None:
    assert names_in("bad") == {*BAD_JOBS, *BAD_TOGETHER}
    assert names_in("bad-projects") == set(BAD_PROJECTS)


@pytest.mark.parametrize(("error", "expected"), BAD_JOBS.items())
def test_a_bad_job_is_one_fault(tmp_path: Path, error: str, expected: Expected) -> None:
    assert_one_fault(with_job(tmp_path, error), "jobs/job.toml", expected)


@pytest.mark.parametrize(("error", "expected"), BAD_TOGETHER.items())
def test_jobs_that_are_bad_together(tmp_path: Path, error: str, expected: Expected) -> None:
    assert_one_fault(with_job(tmp_path, error), "jobs", expected)


@pytest.mark.parametrize(("error", "expected"), BAD_PROJECTS.items())
def test_a_bad_project_is_one_fault(tmp_path: Path, error: str, expected: Expected) -> None:
    write_project(tmp_path, jobs={}, rows=[])
    shutil.copy(CORPUS / "bad-projects" / f"{error}.toml", tmp_path / PROJECT_FILE)
    assert_one_fault(tmp_path, PROJECT_FILE, expected)


# ---------------------------------------------------------------------------- all at once


def test_every_fault_of_every_file_is_reported_at_once(tmp_path: Path) -> None:
    jobs: dict[str, Any] = {
        "first": mean_job(dataset="others", noise=None, start=None),
        "second": mean_job(window="fortnight", contribution={"max_groups": 0}),
        "third": "title = ",
        "Fourth job": leaderboard_job(noise={"releases": 1, "share": Decimal("0.5")}),
    }
    write_project(tmp_path, jobs=jobs, rows=[], budget={"delta": 0}, dataset={"unit": None})
    faults = faults_of(tmp_path)
    assert sorted((fault.file, fault.key) for fault in faults) == [
        ("dp-release.toml", "dataset.ratings.budget.delta"),
        ("dp-release.toml", "dataset.ratings.unit"),
        ("jobs/Fourth job.toml", ""),
        ("jobs/first.toml", "noise"),
        ("jobs/first.toml", "start"),
        ("jobs/second.toml", "contribution.max_groups"),
        ("jobs/second.toml", "contribution.max_rows_per_group"),
        ("jobs/second.toml", "window"),
        ("jobs/third.toml", ""),
    ]


def test_the_message_holds_each_fault_and_the_document_its_fields(tmp_path: Path) -> None:
    write_project(tmp_path, jobs={"mean": mean_job(title=None)}, rows=[], budget={"delta": 1})
    with pytest.raises(ConfigError, match="2 faults") as raised:
        read(tmp_path)
    document = raised.value.document()
    assert document["kind"] == "config"
    assert "dp-release check" in document["hint"]
    for fault, fields in zip(raised.value.faults, document["faults"], strict=True):
        assert str(fault) in document["message"]
        assert fault == Fault(**fields)


# ---------------------------------------------------------------------------- the ledger's address

SERVER = "postgresql+psycopg://clerk:swordfish@db.example/ledger"


def test_the_environment_may_name_the_ledger(tmp_path: Path) -> None:
    write_project(tmp_path, rows=[], project={"ledger": None})
    assert faults_of(tmp_path)[0].key == "project.ledger"
    assert read(tmp_path, {LEDGER_VARIABLE: SERVER}).project.ledger == SERVER
    write_project(tmp_path, rows=[])
    said = read(tmp_path).project.ledger
    assert read(tmp_path, {LEDGER_VARIABLE: ""}).project.ledger == said
    assert read(tmp_path, {LEDGER_VARIABLE: said}).project.ledger == said


def test_two_ledgers_would_be_two_budgets(tmp_path: Path) -> None:
    write_project(tmp_path, rows=[])
    with pytest.raises(ConfigError, match="another ledger than DP_RELEASE_LEDGER") as raised:
        read(tmp_path, {LEDGER_VARIABLE: SERVER})
    assert len(raised.value.faults) == 1


@pytest.mark.parametrize(
    "address",
    [
        SERVER.replace("+psycopg", ""),
        SERVER.replace("://", ":/"),
        SERVER.replace("postgresql", "mysql"),
        f" {SERVER}",
        f"{SERVER}\n",
        SERVER.replace("/ledger", ""),
        f"{SERVER}?schema=Robert'); --",
        f"{SERVER}?schema=a&schema=b",
        SERVER.replace("db.example", "db.example:port"),
        SERVER.replace("clerk:swordfish", "clerk:pass@swordfish"),
        SERVER.replace("ledger", "ledger password=swordfish"),
    ],
)
def test_a_password_is_never_repeated(tmp_path: Path, address: str) -> None:
    write_project(tmp_path, rows=[], project={"ledger": address})
    for arguments in (("check",), ("run", "--json"), ("ledger", "verify"), ("status", "--json")):
        done = dp_release(tmp_path, *arguments)
        assert done.code == 2
        assert "project.ledger" in done.out + done.err
        assert "swordfish" not in done.out + done.err


# ---------------------------------------------------------------------------- files


def test_a_folder_without_a_project(tmp_path: Path) -> None:
    assert_one_fault(tmp_path, PROJECT_FILE, ("", "the file is missing", "dp-release init"))


def test_a_file_that_is_not_utf_8(tmp_path: Path) -> None:
    write_project(tmp_path, jobs={}, rows=[])
    (tmp_path / PROJECT_FILE).write_bytes(b'title = "caf\xe9"\n')
    assert_one_fault(tmp_path, PROJECT_FILE, ("", "cannot be read", "UTF-8"))


def test_a_folder_in_the_place_of_a_job(tmp_path: Path) -> None:
    write_project(tmp_path, jobs={}, rows=[])
    (tmp_path / "jobs" / "folder.toml").mkdir()
    assert_one_fault(tmp_path, "jobs/folder.toml", ("", "cannot be read", "text file"))


@pytest.mark.parametrize("name", ["Upper", "two words", "-dash", "café", "a" * 65, "a.b"])
def test_a_job_file_whose_name_is_no_name(tmp_path: Path, name: str) -> None:
    write_project(tmp_path, jobs={name: mean_job()}, rows=[])
    assert_one_fault(tmp_path, f"jobs/{name}.toml", ("", "is the job's name", "lower-case"))


def test_a_good_project_is_read_as_it_was_written(tmp_path: Path) -> None:
    jobs = {"top": leaderboard_job(), "mean": mean_job(noise={"rho": Decimal("0.1"), "share": 0})}
    jobs["mean"]["noise"]["share"] = Decimal("0.5")
    files = read(write_project(tmp_path, jobs=jobs, rows=[], budget={"epsilon": Decimal("0.1")}))
    assert [job.name for job in files.jobs] == ["mean", "top"]
    dataset = files.dataset_of(files.jobs[0])
    assert (dataset.name, dataset.budget.accountant) == ("ratings", "gdp")
    # Exactly a tenth, which no binary float is.
    assert dataset.budget.epsilon == files.jobs[0].noise.rho == Decimal("0.1")


@pytest.mark.parametrize("epsilon", [0, Decimal("0.0"), 1, 1000000])
def test_a_budget_of_nothing_or_of_very_much_is_allowed(tmp_path: Path, epsilon: Decimal) -> None:
    files = read(write_project(tmp_path, rows=[], budget={"epsilon": epsilon}))
    assert files.datasets["ratings"].budget.epsilon == epsilon


# ---------------------------------------------------------------------------- group files


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("list.txt", "Coffee\n\n  Knives \r\nTea"),
        ("list.txt", "\ufeffCoffee\nKnives\nTea\n"),
        ("one-column.csv", "any name\nCoffee\nKnives\nTea\n"),
        ("columns.csv", 'maker,category\nA,Coffee\n"B, C", Knives\nD,"Tea"\n\n'),
    ],
)
def test_groups_from_a_file(tmp_path: Path, name: str, content: str) -> None:
    statistic = leaderboard_job()["statistic"] | {"groups": name}
    write_project(tmp_path, jobs={"top": leaderboard_job(statistic=statistic)}, rows=[])
    (tmp_path / name).write_bytes(content.encode())
    (job,) = read(tmp_path).jobs
    assert list(job.statistic.groups) == GROUPS
    assert job.statistic.groups_file == name


def test_one_name_may_hold_any_line_break_that_csv_quotes(tmp_path: Path) -> None:
    statistic = leaderboard_job()["statistic"] | {"groups": "list.csv"}
    write_project(tmp_path, jobs={"top": leaderboard_job(statistic=statistic)}, rows=[])
    (tmp_path / "list.csv").write_bytes('category\n"two\nlines"\nnext\u0085line\n'.encode())
    assert read(tmp_path).jobs[0].statistic.groups == ("two\nlines", "next\u0085line")


PAIRS = (("Tea", "Oslo"), ("Tea", "Lyon"), ("7", "Oslo"), ("7", "Lyon"))


def read_job(folder: Path, statistic: dict[str, Any], **changes: Any) -> Job:
    """A job as it is read, and as it comes back from what a ledger keeps of it."""
    write_project(folder, jobs={"job": mean_job(statistic=statistic, **changes)}, rows=[])
    (job,) = read(folder).jobs
    text = json.dumps(job.model_dump(mode="json"))
    kept = Job.model_validate_json(text, strict=True)
    assert kept == job
    # Equal decimals may be written differently.
    assert str(kept) == str(job)
    assert json.dumps(kept.model_dump(mode="json")) == text
    return job


@pytest.mark.parametrize(
    ("groups", "files"),
    [
        ([list(pair) for pair in PAIRS], None),
        ([["Tea", "Oslo"], ["Tea", " Lyon"], [7, "Oslo"], [7, "Lyon"]], None),
        ({"what": ["Tea", 7], "city": ["Oslo", "Lyon"]}, None),
        ({"city": "cities.txt", "what": ["Tea", 7]}, "cities.txt"),
        ({"what": "pairs.csv", "city": "cities.txt"}, "pairs.csv, cities.txt"),
        ("pairs.csv", "pairs.csv"),
    ],
)
def test_groups_of_several_columns(tmp_path: Path, groups: Any, files: str | None) -> None:
    (tmp_path / "cities.txt").write_text("Oslo\nLyon\n")
    lines = [f"{city},,{what} ," for what, city in PAIRS]
    if isinstance(groups, dict):  # a column's own list has each of its names once
        lines = ["Oslo,,Tea,", "Lyon,,7,"]
    (tmp_path / "pairs.csv").write_text("\n".join(["city,more,what,", *lines, "", ""]))
    statistic = {"kind": "count", "by": ["what", "city"], "groups": groups}
    found = read_job(tmp_path, statistic).statistic
    assert (found.by, found.columns) == (("what", "city"), ("what", "city"))
    assert found.groups == PAIRS
    assert found.groups_file == files
    assert [label(key) for key in found.groups[:2]] == ["Tea / Oslo", "Tea / Lyon"]


def test_a_list_of_one_column_is_that_column(tmp_path: Path) -> None:
    found = read_job(tmp_path, {"kind": "count", "by": ["what"], "groups": ["Tea", 7]}).statistic
    assert (found.by, found.columns, found.groups) == ("what", ("what",), ("Tea", "7"))


# ---------------------------------------------------------------------------- conditions


def test_conditions_are_read_and_kept_as_they_were_written(tmp_path: Path) -> None:
    written: list[tuple[str, Any]] = [
        ("=", " Ko\u0308ln\t"),
        ("!=", True),
        ("<", Decimal("0.10")),
        (">=", -(2**53) + 1),
        ("<=", Decimal("1E+2")),
        (">", Decimal("-0.0")),
        ("in", ["0.10", "true", "1"]),
        ("not in", [1, Decimal("1.0"), Decimal("1.00")]),
        ("in", [False]),
    ]
    where = [{"column": "mark", "operator": sign, "value": value} for sign, value in written]
    job = read_job(tmp_path, {**mean_job()["statistic"], "where": where})
    found = [(one.operator, one.value) for one in job.statistic.where]
    expected = [(sign, tuple(v) if isinstance(v, list) else v) for sign, v in written]
    expected[0] = ("=", "Ko\u0308ln")
    assert found == expected
    assert [type(each) for _, each in found] == [type(each) for _, each in expected]
    kinds = [one.kind for one in job.statistic.where]
    assert kinds == ["text", "truth", *["number"] * 4, "text", "number", "truth"]


scalars: st.SearchStrategy[list[Any]] = st.one_of(
    st.lists(st.decimals(-(2**52), 2**52) | st.integers(-(2**53) + 1, 2**53 - 1), min_size=1),
    st.lists(st.booleans(), min_size=1),
    st.lists(st.text().filter(lambda text: text.strip(ASCII_SPACE) != ""), min_size=1),
)


@given(scalars)
def test_any_condition_comes_back_from_json_exactly(values: list[Any]) -> None:
    one = Condition(column="mark", operator="not in", value=tuple(values))
    text = json.dumps(one.model_dump(mode="json"))
    kept = Condition.model_validate_json(text, strict=True)
    assert str(kept.value) == str(one.value)
    assert list(map(type, kept.values)) == list(map(type, one.values))


def test_the_level_of_intervals_is_the_project_s_where_a_job_says_none(tmp_path: Path) -> None:
    own = Decimal("0.8")
    jobs = {"a": mean_job(), "b": mean_job(level=own)}
    for said, expected in ((None, "0.95"), ("0.9", "0.9"), ("0.5", "0.5"), ("0.9999", "0.9999")):
        level = {} if said is None else {"level": Decimal(said)}
        files = read(write_project(tmp_path, jobs=jobs, rows=[], project=level))
        assert [job.level for job in files.jobs] == [Decimal(expected), own]


# ---------------------------------------------------------------------------- any document

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
numbers = st.one_of(
    st.integers(-(2**70), 2**70),
    st.booleans(),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.sampled_from([Decimal("1e400"), Decimal("-1e-400"), Decimal("0.5"), 0, 1]),
)
leaves = st.one_of(texts, numbers, st.dates(), st.sampled_from(["week", "mean", "ratings"]))
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


def mutated(good: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A good document with any values in the place of some of its keys, or with others added."""
    keys = st.sampled_from(sorted(good)) | texts
    nested = [key for key, value in good.items() if isinstance(value, dict)]
    changes = st.dictionaries(keys, values, max_size=3).map(lambda change: {**good, **change})
    inner = [
        mutated(good[key]).map(lambda table, key=key: {**good, key: table})  # type: ignore[misc]
        for key in nested
    ]
    return st.one_of(changes, st.dictionaries(texts, values, max_size=3), *inner)


GOOD_PROJECT = {
    "project": {"title": "Shop", "ledger": "sqlite:///ledger.db", "site": "site"},
    "dataset": {
        "ratings": {
            "source": "ratings.csv",
            "time_format": "iso",
            "unit": "customer_id",
            "time": "rated_at",
            "time_zone": "UTC",
            "budget": {"epsilon": 1, "delta": Decimal("1e-6")},
        }
    },
}


PAIRS_JOB = count_job(
    of="units",
    by=["category", "city"],
    groups={"category": GROUPS, "city": ["Oslo", "Lyon"]},
    where=[
        {"column": "age", "operator": ">=", "value": 18},
        {"column": "city", "operator": "in", "value": ["Oslo", "Lyon"]},
    ],
)
PRIOR_JOB = mean_job(
    statistic={**mean_job()["statistic"], "prior_mean": Decimal("4.1")},
    contribution={"max_groups": 9, "max_rows_per_group": 2, "max_norm": Decimal("2.5")},
    publish={"rounded": False},
    level=Decimal("0.9"),
)
GOOD_JOBS = [mean_job(), leaderboard_job(), PAIRS_JOB, PRIOR_JOB]


@pytest.mark.parametrize("good", [GOOD_PROJECT, *GOOD_JOBS])
def test_the_documents_that_are_changed_below_are_good(good: dict[str, Any]) -> None:
    jobs = {} if good is GOOD_PROJECT else {"job": good}
    assert isinstance(outcome(GOOD_PROJECT, jobs), Files)


def outcome(project: dict[str, Any], jobs: dict[str, Any]) -> Files | tuple[Fault, ...]:
    """What was read, or what is wrong; any error but a ConfigError is let through."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "jobs").mkdir()
        (folder / PROJECT_FILE).write_text(toml(project), encoding="utf-8")
        for job, document in jobs.items():
            (folder / "jobs" / f"{job}.toml").write_text(toml(document), encoding="utf-8")
        try:
            return read(folder)
        except ConfigError as error:
            return error.faults


@settings(deadline=None)
@given(mutated(GOOD_PROJECT))
def test_any_project_file_gives_specs_or_faults(document: dict[str, Any]) -> None:
    assert outcome(document, {})


@settings(deadline=None)
@given(st.one_of(*map(mutated, GOOD_JOBS)))
def test_any_job_file_gives_specs_or_faults(document: dict[str, Any]) -> None:
    assert outcome(GOOD_PROJECT, {"job": document})


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_give_specs_or_faults(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        Path(name, PROJECT_FILE).write_bytes(content)
        with pytest.raises(ConfigError):
            read(Path(name))


def test_a_source_is_no_list_of_groups_and_its_rows_are_not_quoted(tmp_path: Path) -> None:
    statistic = {**mean_job()["statistic"], "groups": "alias.csv"}
    jobs = {"job": mean_job(statistic=statistic)}
    write_project(tmp_path, jobs=jobs, dataset={"source": "rows.csv", "time_format": "iso"})
    (tmp_path / "rows.csv").write_text("category\nSERVER\nSERVER\n")
    (tmp_path / "alias.csv").symlink_to("rows.csv")
    with pytest.raises(ConfigError, match="is the source of a dataset") as caught:
        read(tmp_path)
    assert [fault.key for fault in caught.value.faults] == ["statistic.groups"]
    assert "SERVER" not in str(caught.value)
