# README's two commands are `make demo` and `make test`; nothing but Python 3.11+, make and pip.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The lock holds hashes for Python 3.11; a newer Python resolves its own, newer set.
LOCKED := $(shell $(PYTHON) -c 'import sys; print(int(sys.version_info[:2] == (3, 11)))')

# Python compiles a module when it is first imported; pip would compile all, used or not.
PIP := $(BIN)/pip install -q --no-compile
HASHED := --require-hashes --only-binary :all:

.PHONY: setup setup-test setup-dev other-environments baselines demo site notebook screenshots schema mutation lint reproduce reproduce-quick bench clean
.PHONY: test test-fast test-rest test-trials test-all wheel-check

setup: $(VENV)/.setup
setup-test: $(VENV)/.setup-test
setup-dev: $(VENV)/.setup-dev

$(VENV)/.setup: pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "error: Python 3.11 or newer is needed (set PYTHON=)"; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
ifeq ($(LOCKED),1)
	$(PIP) $(HASHED) -r requirements.lock
	$(PIP) --no-deps -e .
else
	$(PIP) -e .
endif
	@touch $@

$(VENV)/.setup-%: requirements-%.lock $(VENV)/.setup
ifeq ($(LOCKED),1)
	$(PIP) $(HASHED) -r $<
else
	$(PIP) -e '.[$*]'
endif
	@touch $@

# The tools of the PGS and GWAS Catalogs, pandas-plink, GWASLab and LDSC, with which slow tests compare,
# MkDocs, Snakemake with a parser of Nextflow files, and uv.
# Each needs an environment of its own, and so do Opacus and diffprivlib, baselines of experiments,
# which take 1.2 GB and serve no test of the product.
OTHERS := $(addprefix .venv-,catalogue pandas_plink gwas_sumstats gwaslab ldsc website wheels workflows)
other-environments: $(addsuffix /.setup,$(OTHERS))
baselines: .venv-baselines/.setup

.venv-wheels/.setup: tests/wheels/requirements.txt
	test -x .venv-wheels/bin/python || $(PYTHON) -m venv .venv-wheels
	.venv-wheels/bin/pip install -q -r $<
	@touch $@

# By uv, which takes a tenth of pip's time.
$(addsuffix /.setup,$(filter-out .venv-wheels,$(OTHERS)) .venv-baselines): \
.venv-%/.setup: tests/%/requirements.txt .venv-wheels/.setup
	test -x .venv-$*/bin/python || $(PYTHON) -m venv .venv-$*
	.venv-wheels/bin/uv pip install -q --python .venv-$*/bin/python -r $<
	@touch $@

demo: setup
	$(BIN)/python demo/run.py

# The documentation, in build/site; tests/website builds and checks it too.
site: setup .venv-website/.setup
	NO_MKDOCS_2_WARNING=1 .venv-website/bin/mkdocs build --quiet --strict --config-file website/mkdocs.yml

# The tutorial as an executed notebook, build/notebook/tutorial.ipynb.
notebook: setup-dev .venv-website/.setup
	rm -rf build/notebook
	website/notebook.sh $(CURDIR)/$(BIN)/python build/notebook

# docs/report.png and docs/terminal.svg, of the demo's release; Chromium draws the former.
screenshots: setup
	$(BIN)/python website/screenshots.py docs

# Tests that start no service and take seconds each.
QUICK := not slow and not chaos and not cluster and not s3
# Of these, the folders whose tests call functions and run no whole release.
FAST := $(addprefix tests/,docs gaussian kernels ledger methods outcomes simulation storage)
PARALLEL := -n auto --dist loadfile

test: setup-test
	$(BIN)/python -m pytest $(PARALLEL) -m "$(QUICK)"

# A part of `make test`, for an edit loop; FAST="tests/privacy" names another part.
test-fast: setup-test
	$(BIN)/python -m pytest $(PARALLEL) -m "$(QUICK)" $(FAST)

# All others but the trials: they start services, kill processes, set clocks or repeat many draws.
# Those that set the clock of the machine run one at a time. Files start in their order, because the
# longest have few tests, and xdist would start them last.
test-rest: setup-dev other-environments
	$(BIN)/python -m pytest $(PARALLEL) --no-loadscope-reorder \
	  -m "not ($(QUICK)) and not alone and not trials"
	$(BIN)/python -m pytest -m alone

# Twenty-five signals and twelve kills over the life of a release.
test-trials: setup-test
	$(BIN)/python -m pytest -n auto -m trials

test-all: test test-rest test-trials

# The wheel in fresh environments: Python 3.11 with the lowest declared versions, 3.12 and 3.13.
wheel-check: .venv-wheels/.setup
	tests/wheels/check.sh

# Faults in the code that privacy rests on, one at a time: each must make a test fail.
mutation: setup-dev
	$(BIN)/python tests/mutation/run.py --jobs 2

lint: setup-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The JSON schemas of release.json and party.json, from the types of primo_scale/verify/document.py.
schema: setup
	$(BIN)/python -m primo_scale.verify.document

# A figure of a paper, such as FIGURE=wu-2; docs/papers has the results. Rows of primo-6 and
# side-by-side by Opacus and diffprivlib need `make baselines` first.
reproduce: setup-dev
	$(BIN)/python -m experiments.reproduce $(FIGURE)

# A reduced grid of every figure.
reproduce-quick: setup-dev
	$(BIN)/python -m experiments.reproduce all --quick

bench: setup-dev
	for part in genome headline sweep scaling ingest subsample; do \
	  $(BIN)/python -m benchmarks $$part --data bench-run \
	    --results bench-run/results.json || exit 1; done

clean:
	rm -rf $(VENV) $(OTHERS) .venv-baselines build demo-run bench-run
