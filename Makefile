# tiermarket: every command a person needs. ARGS are passed on: make demo ARGS=--once
SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help demo dev test test-long check fix bench lock clean

# The first interpreter that runs, is 3.11 to 3.13, and can make environments.
FITS := import sys, venv, ensurepip; raise SystemExit(not (3, 11) <= sys.version_info[:2] <= (3, 13))
PYTHON ?= $(shell for p in python3.12 python3.11 python3.13 python3 python; do \
	$$p -c '$(FITS)' >/dev/null 2>&1 && { echo $$p; break; }; done)
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

help:
	@echo "make demo [ARGS=--once]   run a whole market on real flights, and leave it open"
	@echo "make test                 install what tests need and run them"
	@echo "make test-long            the longer sweeps"
	@echo "make dev                  the environment with everything to develop"
	@echo "make check | fix          format, lint, types, contracts | mend what can be mended"
	@echo "make bench NAME=serve     one benchmark, as a table"

demo: .venv/demo-installed
	@$(BIN)/tiermarket demo $(ARGS)

dev: .venv/dev-installed

test: dev
	$(BIN)/python -m pytest -m "not long" $(ARGS)

test-long: dev
	$(BIN)/python -m pytest -m long $(ARGS)

check: dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/contracts

fix: dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: dev
	$(BIN)/python -m benchmarks $(or $(NAME),serve) $(ARGS)

# Needs uv; writes hashes and no registry addresses.
lock:
	uv export -q --no-dev --extra demo --group build --no-emit-project --no-annotate --no-header \
		--format requirements-txt -o requirements.lock > /dev/null
	uv export -q --extra demo --group build --no-emit-project --no-annotate --no-header \
		--format requirements-txt -o requirements-dev.lock > /dev/null

clean:
	rm -rf .venv .venv-peers .pytest_cache .mypy_cache .ruff_cache .hypothesis

.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "tiermarket needs Python 3.11, 3.12 or 3.13 with venv; none was found" >&2; exit 1; }
	@echo "Making .venv with $(PYTHON)"
	@$(PYTHON) -m venv .venv

.venv/demo-installed: requirements.lock pyproject.toml | .venv/bin/python
	@echo "Installing what the market needs (once)"
	@$(PIP) install --require-hashes -r requirements.lock
	@$(PIP) install --no-build-isolation --no-deps -e .
	@touch $@

.venv/dev-installed: requirements-dev.lock pyproject.toml | .venv/bin/python
	@echo "Installing what the tests need (once)"
	@$(PIP) install --require-hashes -r requirements-dev.lock
	@$(PIP) install --no-build-isolation --no-deps -e .
	@touch $@ .venv/demo-installed
