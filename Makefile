# One front door. Every target sets up what it needs first; a second run costs nothing.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp-$(shell cat requirements.lock pyproject.toml 2>/dev/null | cksum | cut -d' ' -f1)
ARGS ?=
SEED ?=
SEEDS ?= 100
DATABASES ?=

# With this set, each process that a test starts compiles all of our modules, and each pytest rewrites all tests: 16 s instead of 7.
export PYTHONDONTWRITEBYTECODE =

.DEFAULT_GOAL := help
.PHONY: openapi help setup packages nodejs frontend wheel up quick test test-pythons test-databases services lint lint-python sim sim-slaves bench bench-clients bench-delay bench-pages \
  bench-population bench-compare faults \
  fuzz lock test-all attack

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check

# uv takes a quarter of pip's time, but doesn't read pip's settings (an index of your own, say): where it fails, pip installs.
setup: $(STAMP) ## make .venv with everything in it

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@awk '/^[a-z]/ { is_uv = /^uv==/ } is_uv' requirements.lock > $(VENV)/uv.lock
	$(PIP) --require-hashes -r $(VENV)/uv.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements.lock || $(PIP) --require-hashes -r requirements.lock
	$(PIP) --no-deps --no-build-isolation -e .
	@rm -f $(VENV)/.stamp-*
	@touch $@

# The system's Node.js when it is new enough; 60 MB are fetched only where there is none.
nodejs: setup
	@$(BIN)/python -m tools.node > /dev/null 2>&1 || $(PIP) --require-hashes -r requirements-nodejs.lock
	@$(BIN)/python -m tools.node > /dev/null

# Packages of npm with the system's Node.js, while .venv is still being made.
packages:
	@$(PYTHON) -m tools.frontend install

frontend: nodejs ## build the console's pages when something changed
	@$(BIN)/python -m tools.frontend build

wheel: frontend ## a wheel with the console's pages in it: dist/
	@rm -rf build/lib build/bdist.*
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist .

up: frontend ## run a whole system: make up ARGS="--data-dir DIR --port-base P"
	@$(BIN)/python manage.py up $(ARGS)

lint: lint-python nodejs ## style, types, import rules
	$(BIN)/python -m tools.frontend run lint typecheck

lint-python: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tools.dead_code
	$(BIN)/python -m tools.prose

.PHONY: demo demo-orders e2e screenshots spark
demo: setup ## load an online shop into the system that `make up` runs: make demo ARGS="--seconds 60"
	@$(BIN)/python -m examples.shop $(ARGS)

demo-orders: setup ## orders in transactions while processes are killed; the books balance: make demo-orders ARGS="--seconds 60"
	@$(BIN)/python -m examples.orders $(ARGS)

screenshots: frontend ## every page as a picture, into screenshots/: make screenshots ARGS="overview groups"
	@$(BIN)/python -m tests.support.console.screenshots $(ARGS)

quick: setup ## unit tests, ten seeds of the simulation, lint of what you changed: about a minute
	@$(BIN)/python -m tests.support.runner.all_tests --quick

# Some commands at a time (tests/support/runner/all_tests.py); a failure in one does not hide the others.
test: frontend ## what CI runs: lint and all tests but the longest: make test ARGS="-k word"
	@$(BIN)/python -m tests.support.runner.all_tests $(ARGS)

test-pythons: setup ## nodes and clients on the other Python versions of this machine
	@$(BIN)/python -m tests.support.runner.all_tests --pythons

sim: setup ## one seed of the simulation, or many: make sim SEED=17, ARGS="--seeds 1000"
	$(BIN)/python -m tests.sim.swarm.runs $(if $(SEED),--seed $(SEED),$(or $(ARGS),--seeds $(SEEDS)))

sim-slaves: setup ## the same with broker groups that have slaves: make sim-slaves SEED=17, ARGS="--seeds 1000", KIND=whole
	$(BIN)/python -m tests.sim.slaves.$(or $(KIND),schedule) $(if $(SEED),--seed $(SEED),$(or $(ARGS),--seeds $(SEEDS)))

e2e: frontend ## stories in a real browser, and the demo: make e2e ARGS="-k lag"
	QMQ_STORIES=full $(BIN)/python -m pytest tests/served/e2e tests/served/demo $(ARGS)

test-databases: setup ## tests of databases: make test-databases DATABASES=postgresql
	@$(BIN)/python -m tests.support.runner.with_database $(DATABASES) $(if $(ARGS),--may-be-empty) -- \
	  $(BIN)/python -m pytest $(ARGS) -m uses_database

services: ## install PostgreSQL and MariaDB for the tests (Debian, root)
	.ci/services

bench: setup ## measure on this machine, print a table
	$(BIN)/python -m benchmarks.load $(ARGS)

bench-clients: setup ## our client beside other brokers' Python clients: make bench-clients ARGS="--only pyqmq aiokafka"
	$(BIN)/python -m benchmarks.clients $(ARGS)

bench-delay: setup ## measure the delay node: lateness, ten million pending
	$(BIN)/python -m benchmarks.delay $(ARGS)

bench-population: setup ## measure nodes with many subjects: make bench-population ARGS="--subjects 1000 40000"
	$(BIN)/python -m benchmarks.population $(ARGS)

bench-compare: setup ## measure nodes beside those of another source tree: make bench-compare ARGS="--tree ../before"
	$(BIN)/python -m benchmarks.compare $(ARGS)

bench-pages: frontend ## what each page costs a browser, with the demo's data: make bench-pages ARGS="--rest 15 groups"
	$(BIN)/python -m benchmarks.pages $(ARGS)

# Every part runs, also after one that failed. Without CI in the environment examples of hypothesis are random.
test-all: frontend ## everything, one part after the other: more than an hour
	@CI= QMQ_SIM=full $(MAKE) --no-print-directory --keep-going SEEDS=2000 test test-pythons sim e2e faults spark test-databases attack

attack: setup ## attack a whole system for two minutes (its limits: docs/security.md)
	QMQ_ATTACK=full $(BIN)/python -m pytest -s tests/faults/attack $(ARGS)

faults: setup ## the whole fault suite
	QMQ_FAULTS=full $(BIN)/python -m pytest tests/faults tests/sim/crashes tests/sim/delay tests/served/control tests/served/conformance $(ARGS)

spark: setup ## all tests of analytics, with a cluster of two workers
	QMQ_SPARK=full $(BIN)/python -m pytest tests/served/spark tests/unit/spark_analytics $(ARGS)

fuzz: setup ## the codec, for long
	FUZZ_CASES=1000000 $(BIN)/python -m pytest tests/unit/fuzz $(ARGS)

openapi: setup ## write the OpenAPI file from the code
	$(BIN)/python manage.py spectacular --fail-on-warn --validate --file api/openapi.yaml

COMPILE = $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header --no-emit-index-url --no-emit-find-links \
	  --no-annotate --no-emit-package pyqmq
lock: ## pin all dependencies anew
	$(COMPILE) --extra dev --extra postgresql --extra mysql --output-file requirements.lock pyproject.toml
	$(COMPILE) --extra nodejs --output-file requirements-nodejs.lock pyproject.toml
