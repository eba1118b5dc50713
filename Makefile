# Each target makes its own virtual environment and needs nothing but Python 3.10 or newer and a package registry.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test lint docs performance clean

demo: $(VENV)/.demo
	$(BIN)/python -m spacy project run demo

test: $(VENV)/.training $(VENV)/.test
	$(BIN)/python -m pytest

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.training $(VENV)/.docs
	$(BIN)/python docs/tables.py --check
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

performance: $(VENV)/.demo
	$(BIN)/python -m spacy project run performance

$(VENV)/.%: setup.cfg constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) --editable '.[$*]'
	touch $@

clean:
	rm -rf $(VENV) build dist site *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
