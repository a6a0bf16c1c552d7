# Two commands: `make reproduce` runs the main job, `make test` proves the library. Each sets up what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: setup reproduce test test-full lint bench clean

setup: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'limitlaw needs Python >= 3.11, this is ' + sys.version.split()[0] + '; set PYTHON=python3.11 or newer')"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $@

reproduce: setup
	$(BIN)/limitlaw reproduce --out out

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

test: lint
	$(BIN)/pytest -n 2 -m "not full"

test-full: setup
	$(BIN)/pytest -n 2 -m full

bench: setup
	$(BIN)/python benchmarks/gram_against_dense.py
	$(BIN)/python benchmarks/laws_and_distances.py
	$(BIN)/python benchmarks/reproduction.py
	$(BIN)/python benchmarks/regression.py

clean:
	rm -rf $(VENV) out
