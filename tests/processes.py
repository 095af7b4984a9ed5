"""Processes of the tests' own, forked from a server that has done the slow imports already.

The server has no threads, so one more process costs milliseconds and inherits nothing from the
tests around it. It starts once in each worker, with what it is told to import by then: so
whatever is forked imports the same, and this is the only place that says what.
"""

from __future__ import annotations

import multiprocessing

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["pytest", "tests.warm"])
