# What is installed is what the lock files say, by hash; a stamp remembers that it was done, so a
# second call installs nothing and needs no network.

PYTHON := $(shell command -v python3.11 || command -v python3)
BIN    := .venv/bin
PIP    := $(BIN)/python -m pip --quiet --disable-pip-version-check
HERE   := $(PIP) install --no-deps --no-build-isolation --editable .
COMPILE := uv pip compile --universal --generate-hashes --python-version 3.11

MAKEFLAGS += --no-print-directory
.PHONY: run test check golden sample clean lock

# 3 says that the budget refused a window: the run did what it must.
run: .venv/run.stamp
	@$(BIN)/dp-release run --now 2026-03-30T09:00:00+01:00 || { code=$$?; test $$code -eq 3 || exit $$code; }

test: .venv/dev.stamp
	@$(BIN)/pytest

check: .venv/dev.stamp
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/pytest -n 0 tests/test_tidy.py

# Writes the expected pages and ledgers anew: review the difference before it is committed.
golden: .venv/dev.stamp
	@$(BIN)/pytest -n 0 --golden -k golden

sample: .venv/run.stamp
	@$(BIN)/python data/make_sample.py

# Never state/: it is the ledger, and a ledger that is gone is a budget that is forgotten.
clean:
	@rm -rf dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	@find . -name __pycache__ -not -path './.venv*' -prune -exec rm -rf {} +

lock:
	@command -v uv > /dev/null || { echo "make lock needs uv: pip install uv" >&2; exit 1; }
	@$(COMPILE) --group build pyproject.toml -o requirements/run.txt > /dev/null
	@$(COMPILE) --group build --group dev -c requirements/run.txt pyproject.toml -o requirements/dev.txt > /dev/null

.venv/bin/python:
	@$(or $(PYTHON),false) -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2> /dev/null || \
	  { echo "Python 3.11 with venv is missing: apt-get install python3.11-venv" >&2; exit 1; }
	@$(PYTHON) -m venv .venv

.venv/run.stamp: requirements/run.txt pyproject.toml | .venv/bin/python
	@echo "Installing requirements/run.txt into .venv; this takes about a minute, once." >&2
	@$(PIP) install --require-hashes -r requirements/run.txt
	@$(HERE)
	@touch $@

.venv/dev.stamp: requirements/dev.txt .venv/run.stamp
	@echo "Installing requirements/dev.txt into .venv; this takes about a minute, once." >&2
	@$(PIP) install --require-hashes -r requirements/dev.txt
	@touch $@
