# Two commands for a newcomer: `make demo` and `make test`. Each sets up .venv once and re-uses it.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test lint types docs docs-ready bench slow clean

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $(READY)

demo: $(READY)  ## The main job on the bundled data: certificate, picture, report.
	$(BIN)/python -m datalens demo --out runs/demo

test: lint types  ## Lint, types and the default test suite.
	$(BIN)/python -m pytest -q -n 2

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

docs-ready: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'

docs: docs-ready  ## The documentation as a site, in site/. A warning or a dead link is an error.
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict  # --quiet would hush what strict counts

slow: $(READY)  ## Real data and long runs.
	$(BIN)/python -m pytest -q -m slow

bench: $(READY)  ## Speed and utility, one table each.
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python -m datalens bench utility --epsilons 10

clean:
	rm -rf $(VENV) site build dist .pytest_cache .mypy_cache .ruff_cache
