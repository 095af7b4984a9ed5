"""Imports what a forked test process will need, once, before it is forked."""

import ibis.backends.duckdb
import pandas
import sqlalchemy.dialects.postgresql.psycopg

import release.project
import release.site
from release.accounting import gdp_epsilon
from tests import test_crashes
from tests.ledger import test_concurrency, test_files, test_machine, test_upgrade

# Some functions take their slow imports when they are first called.
gdp_epsilon(1000, 1e-6)
__all__ = [
    "ibis",
    "pandas",
    "release",
    "sqlalchemy",
    "test_concurrency",
    "test_crashes",
    "test_files",
    "test_machine",
    "test_upgrade",
]
