"""Imports what a forked test process will need, once, before it is forked."""

import gc

import ibis.backends.duckdb.converter
import ibis.expr.types.groupby
import ibis.formats.pandas
import pandas
import pyarrow.dataset
import sqlalchemy.dialects.postgresql.psycopg

import release.cli.documents
import release.cli.terminal
import release.project
import release.site
from release.accounting import gdp_epsilon
from tests import kills, test_crashes
from tests.ledger import test_concurrency, test_files, test_machine, test_upgrade
from tests.site import examples

# Some functions take their slow imports when they are first called.
gdp_epsilon(1000, 1e-6)
# So are the shipped pages compiled.
release.site.render([examples.shop(1, 0)], templates=None)
# A collection in a child would write to every object there is, and so copy all of this memory.
gc.freeze()
__all__ = [
    "examples",
    "ibis",
    "kills",
    "pandas",
    "pyarrow",
    "release",
    "sqlalchemy",
    "test_concurrency",
    "test_crashes",
    "test_files",
    "test_machine",
    "test_upgrade",
]
