# README's two commands are `make demo` and `make test`; nothing but Python 3.11+, make and pip.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The lock holds hashes for Python 3.11; a newer Python resolves its own, newer set.
LOCKED := $(shell $(PYTHON) -c 'import sys; print(int(sys.version_info[:2] == (3, 11)))')

.PHONY: setup setup-dev catalogue-tools demo schema test test-rest test-trials test-all lint bench clean

setup: $(VENV)/.setup
setup-dev: $(VENV)/.setup-dev

$(VENV)/.setup: pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "error: Python 3.11 or newer is needed (set PYTHON=)"; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
ifeq ($(LOCKED),1)
	$(BIN)/pip install -q --require-hashes --only-binary :all: -r requirements.lock
	$(BIN)/pip install -q --no-deps -e .
else
	$(BIN)/pip install -q -e .
endif
	@touch $@

$(VENV)/.setup-dev: $(VENV)/.setup requirements-dev.lock
ifeq ($(LOCKED),1)
	$(BIN)/pip install -q --require-hashes --only-binary :all: -r requirements-dev.lock
else
	$(BIN)/pip install -q -e '.[dev]'
endif
	@touch $@

# The PGS Catalog's own tools, with which a slow test scores a release.
catalogue-tools: .venv-catalogue/.setup

.venv-catalogue/.setup: tests/catalogue/requirements.txt
	test -x .venv-catalogue/bin/python || $(PYTHON) -m venv .venv-catalogue
	.venv-catalogue/bin/pip install -q -r tests/catalogue/requirements.txt
	@touch $@

demo: setup
	$(BIN)/python demo/run.py

# Tests that start no service and take seconds each; processes side by side.
QUICK := not slow and not chaos and not cluster and not s3

test: setup-dev
	$(BIN)/python -m pytest -n auto --dist loadfile -m "$(QUICK)"

# All others, one at a time: they measure memory, set clocks, kill processes and start services.
test-rest: setup-dev catalogue-tools
	$(BIN)/python -m pytest -m "not ($(QUICK))"

# A hundred signals and thirty kills over the life of a release; the tier above takes every fourth.
test-trials: setup-dev
	PRIMO_SCALE_TRIALS=all $(BIN)/python -m pytest -n auto tests/chaos/test_signals.py

test-all: test test-rest test-trials

lint: setup-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The JSON schema of release.json, from the dataclasses of primo_scale/publication/statement.py.
schema: setup
	$(BIN)/python -m primo_scale.publication.release_schema

bench: setup-dev
	for part in headline sweep biobank scaling ingest; do \
	  $(BIN)/python -m benchmarks $$part --data bench-run \
	    --results bench-run/results.json || exit 1; done

clean:
	rm -rf $(VENV) .venv-catalogue demo-run bench-run
