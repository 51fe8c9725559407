# Everything here runs from .venv, which `make install` creates from requirements.lock.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

BIN := .venv/bin
STAMP := .venv/.installed
MANAGE := $(BIN)/python manage.py
# A separate data folder, so that no check or test opens the data of a running console.
APART := DIR_DATA=var/check

# Keep bytecode whatever the caller prefers: the tests start hundreds of processes.
unexport PYTHONDONTWRITEBYTECODE

WORKERS ?= 2
ARGS ?=
PYTEST_ARGS ?=
# Tests of one file share a worker and its fixtures; `make check` runs tests/architecture.
PYTEST = $(APART) $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --durations=10 \
  --ignore=tests/architecture $(PYTEST_ARGS)
FAST := not slow and not browser
POSTGRES := not browser and not once
# Reading all tests to pick these takes a minute.
SLOW = $(shell grep -rl --include='test_*.py' 'mark\.slow' tests)

# For `make verify`: PostgreSQL (a role that may create databases), and a Redis server whose databases 10 to 15 it may empty.
export DIR_TEST_POSTGRES ?= postgres://root@127.0.0.1:5432/postgres
export DIR_TEST_REDIS ?= redis://127.0.0.1:6379
RANDOM_KEY := $(BIN)/python -c 'import base64, secrets; print(base64.b64encode(secrets.token_bytes(32)).decode())'

# Code that decides or proves something: every branch must be tested.
EXACT := runtime/kernel/*,runtime/contracts/*,escalations/policy.py,audit/access/roles.py,audit/actors.py,audit/chain.py,audit/canonical.py,audit/events/*

# The tests that do it. Measuring takes two thirds again of their time, so no others are measured.
EXACTLY := tests/kernel tests/contracts tests/golden tests/core tests/incidents tests/outward tests/guards \
  tests/api/test_bodies.py tests/api/test_incident_calls.py tests/audit/test_ledger.py \
  tests/audit/test_ledger_verification.py tests/escalations/test_gates.py tests/escalations/test_policy.py \
  tests/escalations/test_policy_authority.py tests/escalations/test_replacing.py tests/escalations/test_two_people.py \
  tests/execution/test_late_receipts.py tests/execution/test_redaction.py tests/maintenance/test_holds.py \
  tests/proposals

.PHONY: help install up test verify verify-sqlite verify-slow verify-postgres coverage check browser bench clean lock docs \
	check-format check-lint check-types check-imports check-structure check-migrations check-system check-docs

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(STAMP) ## Create .venv with every package, verified by hash

$(STAMP): requirements.lock
	@python=""; \
	for name in $${PYTHON:-python3.11 python3.12 python3.13 python3}; do \
	  if "$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then python="$$name"; break; fi; \
	done; \
	if [ -z "$$python" ]; then \
	  echo "No Python 3.11 or newer was found. Install it (on Debian or Ubuntu: apt-get install python3.11 python3.11-venv)" >&2; \
	  echo "or name yours: make install PYTHON=/path/to/python3.11" >&2; exit 1; \
	fi; \
	if [ ! -x $(BIN)/python ] && ! "$$python" -m venv .venv; then \
	  rm -rf .venv; \
	  echo "$$python cannot make a virtual environment. On Debian or Ubuntu: apt-get install python3-venv" >&2; exit 1; \
	fi
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@touch $@

up: $(STAMP) ## Start the console with its demo (ARGS="--port 8000 --data DIR --no-demo")
	$(MANAGE) up $(ARGS)

test: $(STAMP) ## Run the fast tests (no real servers, faults, bursts or searches)
	$(PYTEST) -m "$(FAST)"

verify: verify-sqlite verify-slow verify-postgres browser ## Run every test on both databases, and the coverage gate (needs PostgreSQL, Redis, Chromium)

# The first step has no end (DIR_TESTS_END): a test that is left out covers nothing.
verify-sqlite: $(STAMP)
	DIR_TESTS_END= $(PYTEST) -m "$(FAST)" $(EXACTLY) --cov --cov-report=
	$(BIN)/coverage report --include="$(EXACT)" --fail-under=100
	$(PYTEST) -m "$(FAST)" $(addprefix --ignore=,$(EXACTLY))

coverage: $(STAMP) ## Say which lines the fast tests run (takes longer than they do alone)
	$(PYTEST) -m "$(FAST)" --cov --cov-report=
	$(BIN)/coverage report

verify-slow: $(STAMP)
	$(PYTEST) -m "slow and not browser" $(SLOW)

verify-postgres: $(STAMP)
	DATABASE_URL="$(DIR_TEST_POSTGRES)" REDIS_URL="$(DIR_TEST_REDIS)/15" \
	  DIR_SECRET_KEY="$$($(RANDOM_KEY))" DIR_SIGNING_KEY="$$($(RANDOM_KEY))" \
	  DIR_PAYLOAD_KEY="$$($(RANDOM_KEY))" \
	  $(PYTEST) -m "$(POSTGRES)" --create-db

check: check-format check-lint check-types check-imports check-structure check-migrations check-system check-docs ## Format, lint, types, layers, structure, migrations, docs

check-format: $(STAMP)
	$(BIN)/ruff format --check --quiet .
check-lint: $(STAMP)
	$(BIN)/ruff check --quiet --output-format concise .
	$(BIN)/djlint --quiet templates
check-types: $(STAMP)
	$(APART) $(BIN)/mypy
check-imports: $(STAMP)
	PYTHONPATH=sdk $(BIN)/lint-imports
check-structure: $(STAMP)
	$(APART) $(BIN)/python -m pytest -q tests/architecture
check-migrations: $(STAMP)
	$(APART) $(MANAGE) makemigrations --check --dry-run
check-system: $(STAMP)
	$(APART) $(MANAGE) check --fail-level WARNING
check-docs: $(STAMP)
	$(APART) $(MANAGE) docs_fresh

docs: $(STAMP) ## Regenerate the generated pages of docs/
	$(APART) $(MANAGE) docs_fresh --write

# One test at a time: Chromium and the console that it looks at take both cores.
browser: $(STAMP) ## Run the tests that need Chromium
	$(APART) $(BIN)/python -m pytest tests/browser --durations=10 $(PYTEST_ARGS)

bench: $(STAMP) ## Run the benchmarks and print the speed ratios
	$(BIN)/python -m bench $(ARGS)

lock: $(STAMP) ## Regenerate requirements.lock from pyproject.toml
	CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/pip-compile --quiet --allow-unsafe --extra dev --generate-hashes \
	  --no-emit-find-links --no-emit-index-url --no-emit-options --no-strip-extras --output-file requirements.lock pyproject.toml

clean: ## Remove .venv, caches and the data folder ./var
	rm -rf .venv var var.mark* staticfiles .coverage .coverage.* .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis htmlcov test-results
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
