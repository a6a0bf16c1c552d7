# Two commands: `make reproduce` runs the main job, `make test` proves the library. Each sets up what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: setup reproduce test test-full test-long lint bench docs clean

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
	$(BIN)/pytest -n 2 -m "not full and not long"

# genuine models are built with exactly this torch; a range would take the newest, with its accelerator libraries
$(VENV)/.installed-torch: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet "torch==2.13.0"
	$(BIN)/python -m pip install --quiet --editable ".[dev,torch]"
	touch $@

# what needs a browser is skipped where there is none, and says so
test-full: $(VENV)/.installed-torch $(VENV)/.installed-docs
	$(BIN)/pytest -n 2 -m full

# many more random networks: hours, by hand before a release
test-long: setup
	$(BIN)/pytest -n 2 -m long

bench: $(VENV)/.installed-torch
	$(BIN)/python benchmarks/gram_against_dense.py
	$(BIN)/python benchmarks/laws_and_distances.py
	$(BIN)/python benchmarks/reproduction.py
	$(BIN)/python benchmarks/regression.py
	$(BIN)/python benchmarks/deep.py
	$(BIN)/python benchmarks/cluster.py
	$(BIN)/python benchmarks/explorer.py

$(VENV)/.installed-docs: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --editable ".[dev,docs]"
	touch $@

docs: $(VENV)/.installed-docs
	$(BIN)/sphinx-build --fail-on-warning --nitpicky --quiet --builder html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

clean:
	rm -rf $(VENV) out docs/_build
