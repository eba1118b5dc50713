# Each target needs nothing but Python 3.10 or newer and a package registry. Each version of Python has an environment of
# its own: `make test PYTHON=python3.13` works in .venv-3.13.
PYTHON ?= python3
VENV ?= .venv-$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
BIN = $(VENV)/bin
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test wheel-test lint docs platforms performance clean

demo: $(VENV)/.demo
	$(BIN)/python -m spacy project run demo

test: $(VENV)/.training $(VENV)/.test
	$(BIN)/python -m pytest

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The plugin's tests, with the wheel and only what it declares, outside of the checkout.
wheel-test: $(VENV)/.demo
	rm -rf dist $(VENV)-wheel
	$(BIN)/python -m build --outdir dist
	$(PYTHON) -m venv $(VENV)-wheel
	$(VENV)-wheel/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
	    dist/*.whl pytest hypothesis
	.ci/test-wheel $(VENV)-wheel/bin/python dist

docs: $(VENV)/.training $(VENV)/.docs
	$(BIN)/python docs/tables.py --check
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

# Whether the dependencies resolve on macOS and Windows: no part of continuous integration, because releases change it.
platforms: $(VENV)/.dev
	$(INSTALL) uv
	$(BIN)/python .ci/check-platforms $(BIN)/uv

performance: $(VENV)/.demo
	$(BIN)/python -m spacy project run performance

$(VENV)/.%: setup.cfg constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) --editable '.[$*]'
	touch $@

clean:
	rm -rf $(VENV) $(VENV)-wheel build dist site *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
