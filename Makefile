# make demo   set up .venv if needed, and show what maxsparse does
# make test   set up, then run all checks: ruff, mypy, pytest with doctests
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# --no-compile: the first import of a module compiles it; compiling all of them takes longer than installing them.
PIP    := $(BIN)/python -m pip --disable-pip-version-check install -qq --no-compile
# For the tests. A plain version range would pull several gigabytes of GPU packages on a machine without a GPU.
TORCH  := torch==2.13.0
# A test that hangs fails and shows where, instead of holding up all others; the slowest takes a minute.
PYTEST := python -m pytest -n 2 -m "not long" -o faulthandler_timeout=600 -o faulthandler_exit_on_timeout=true

.PHONY: help demo test test-long test-minimum coverage lint bench docs clean

help:
	@echo "make demo    set up .venv if needed, then the demo: a table and a figure"
	@echo "make test    set up if needed, then ruff, mypy and pytest"
	@echo "make test-long  long versions of the tests: many more random problems and damaged files"
	@echo "make test-minimum  pytest with the oldest dependencies that pyproject.toml allows, in .venv-minimum"
	@echo "make coverage  pytest, with the share of lines and branches that it runs"
	@echo "make lint    ruff and mypy only"
	@echo "make bench   speed relative to other libraries (installs them)"
	@echo "make docs    build the documentation, docs/_build/index.html"
	@echo "make clean   remove .venv, caches and outputs"

$(VENV)/.base: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "maxsparse needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	@echo "[1/2] virtual environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV) || { echo "Could not make a virtual environment (on Debian: install python3-venv)."; exit 1; }
	@echo "[2/2] maxsparse and what it needs"
	@$(PIP) -e . || { echo "Could not install maxsparse; see the message of pip above."; exit 1; }
	@touch $@

$(VENV)/.dev: $(VENV)/.base
	@echo "[dev] $(TORCH)"
	@$(PIP) $(TORCH) || { echo "Could not install $(TORCH); see the message of pip above."; exit 1; }
	@echo "[dev] test tools"
	@$(PIP) -e '.[dev,train,stereo,cluster,tables,export,spectra]' || { echo "Could not install the test tools; see the message of pip above."; exit 1; }
	@touch $@

$(VENV)/.bench: $(VENV)/.dev
	@echo "[bench] the libraries to compare with"
	@$(PIP) -e '.[bench]' || { echo "Could not install the peers; see the message of pip above."; exit 1; }
	@touch $@

demo: $(VENV)/.base
	@$(BIN)/maxsparse demo

lint: $(VENV)/.dev
	@echo "ruff check";  $(BIN)/ruff check .
	@echo "ruff format"; $(BIN)/ruff format --check .
	@echo "mypy";        $(BIN)/mypy

test: lint
	@echo "pytest"; $(BIN)/$(PYTEST)

test-long: $(VENV)/.dev
	@$(BIN)/python -m pytest -m long
	@$(BIN)/python -m pytest tests/trust/test_properties.py tests/trust/test_recoverer_properties.py --hypothesis-profile=long

coverage: $(VENV)/.dev
	@$(BIN)/$(PYTEST) --cov --cov-report=
	@$(BIN)/coverage report

OLD := .venv-minimum
OLD_EXTRAS := train stereo tables cluster export spectra
$(OLD)/.installed: pyproject.toml
	@echo "[minimum] virtual environment in $(OLD)"
	@$(PYTHON) -m venv $(OLD)
	@$(OLD)/bin/python .ci/minimum.py $(OLD_EXTRAS) > $(OLD)/constraints.txt
	@$(OLD)/bin/python -m pip --disable-pip-version-check install -qq -c $(OLD)/constraints.txt -e '.[dev,train,stereo,tables,cluster,export,spectra]'
	@touch $@

test-minimum: $(OLD)/.installed
	@$(OLD)/bin/$(PYTEST)

bench: $(VENV)/.bench
	@$(BIN)/python benchmarks/solvers.py

$(VENV)/.docs: $(VENV)/.dev
	@echo "[docs] Sphinx"
	@$(PIP) -e '.[docs]' || { echo "Could not install Sphinx; see the message of pip above."; exit 1; }
	@touch $@

docs: $(VENV)/.docs
	@$(BIN)/python -m sphinx -W --keep-going -q docs docs/_build
	@echo "Open docs/_build/index.html"

clean:
	rm -rf $(VENV) $(OLD) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist maxsparse-demo docs/_build docs/gallery docs/reference/parts
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
