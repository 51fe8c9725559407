# Everything here runs from .venv, which `make install` makes from requirements.lock.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

BIN := .venv/bin
STAMP := .venv/.installed
MANAGE := $(BIN)/python manage.py
# A folder of its own, so that no check or test opens the data of a running console.
APART := DIR_DATA=var/check

WORKERS ?= 2
ARGS ?=
PYTEST_ARGS ?=
# Which tests the suite runs, in words of pytest -m.
SELECT ?= not browser

# Arithmetic that decides or proves something: every branch is tested.
EXACT := runtime/kernel/*,runtime/contracts/*,escalations/policy.py,audit/chain.py,audit/canonical.py,audit/events/*

.PHONY: help install up test suite coverage check browser bench clean lock docs \
	check-format check-lint check-types check-imports check-structure check-migrations check-system check-docs

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(STAMP) ## Make .venv with every package, verified by hash

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

test: suite coverage ## Run the tests and the coverage gates (no browser)

suite: $(STAMP)
	$(APART) $(BIN)/python -m pytest -m "$(SELECT)" -n $(WORKERS) --dist loadgroup --cov --cov-report= $(PYTEST_ARGS)

coverage: $(STAMP)
	$(BIN)/coverage report --include="$(EXACT)" --fail-under=100
	$(BIN)/coverage report --omit="$(EXACT)" --fail-under=90

check: check-format check-lint check-types check-imports check-structure check-migrations check-system check-docs ## Format, lint, types, layers, structure, migrations, docs

check-format: $(STAMP)
	$(BIN)/ruff format --check --quiet .
check-lint: $(STAMP)
	$(BIN)/ruff check --quiet --output-format concise .
check-types: $(STAMP)
	$(APART) $(BIN)/mypy
check-imports: $(STAMP)
	$(BIN)/lint-imports
check-structure: $(STAMP)
	$(APART) $(BIN)/python -m pytest -q tests/architecture
check-migrations: $(STAMP)
	$(APART) $(MANAGE) makemigrations --check --dry-run
check-system: $(STAMP)
	$(APART) $(MANAGE) check --fail-level WARNING
check-docs: $(STAMP)
	$(APART) $(MANAGE) docs_fresh

docs: $(STAMP) ## Write the generated pages of docs/ anew
	$(APART) $(MANAGE) docs_fresh --write

browser: $(STAMP) ## Run the tests that need Chromium
	$(APART) $(BIN)/python -m pytest -m browser $(PYTEST_ARGS)

bench: $(STAMP) ## Measure, and print the ratios of docs/performance
	$(BIN)/python -m bench $(ARGS)

lock: $(STAMP) ## Write requirements.lock anew from pyproject.toml
	CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/pip-compile --quiet --allow-unsafe --extra dev --generate-hashes \
	  --no-emit-find-links --no-emit-index-url --no-emit-options --strip-extras --output-file requirements.lock pyproject.toml

clean: ## Remove .venv, caches and the data folder ./var
	rm -rf .venv var var.mark* staticfiles .coverage .coverage.* .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis htmlcov test-results
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
