# Every target works on a fresh clone with Python 3.11 or newer, make and pip. Versions and hashes come from the lock
# files; `make lock` writes them.

PYTHON ?= python3
ARGS ?=
UV_VERSION := 0.13.9

# Images of Python often set it. Each test worker would then compile 500 modules again, 16 s of CPU time, and each process
# that a test starts would compile the service.
export PYTHONDONTWRITEBYTECODE :=

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
SOURCES = $(wildcard extender benchmarks tests docs/hooks.py deploy/helm/*/files/*.py)
VERSION = $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' extender/version.py)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install run test test-all judge control-plane upstream-lock verdict fuzz fuzz-cel kube-bin e2e check docs \
	docs-serve media rejudge parity metrics chart-readme bench bench-full performance bench-compare bench-cluster mutants \
	soak sbom dist chart set-version addresses check-release release-notes kind kind-down k3d k3d-down lock format clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

install: $(VENV)/.runtime-stamp ## Install the commands into .venv

run: $(VENV)/.runtime-stamp ## Run the service (options: ARGS="--port 9000")
	$(BIN)/extender serve $(ARGS)

PYTEST = $(BIN)/python -m pytest -n auto --dist worksteal

test: $(VENV)/.dev-stamp ## Run the tests of a commit (options: ARGS="-k preempt")
	$(PYTEST) $(ARGS)

test-all: $(VENV)/.dev-stamp ## Run all tests but those of `make e2e`, with more random cases, as CI does
	$(PYTEST) -m "" --hypothesis-profile=ci --ignore=tests/e2e/control_plane $(ARGS)

# --- Kubernetes' own code, built from its Go modules (tests/upstream) ---

# The newest minor, that of go.mod: the control plane of the tests.
NEWEST := 37
# A minor, or a minor and a patch: 36.2. Without a patch it is that of the minor's lock file, or else the newest one.
MINOR ?= $(NEWEST)

judge: ## Build build/judge-1.37, kube-scheduler's own code that judges scenarios (MINOR=37, or a patch: 36.2)
	tests/upstream/build judge $(MINOR)

control-plane: ## Build build/kube-1.37: etcd and the control plane (MINOR=37, or a patch)
	tests/upstream/build control-plane $(MINOR)

upstream-lock: ## Move the lock file of MINOR=37 to the newest patch, or to one: MINOR=37.2
	tests/upstream/build lock $(MINOR)

CLUSTER ?= extender/cluster/files/example.yaml

verdict: $(VENV)/.dev-stamp ## Ask MINOR=37 about POD=namespace/name (or a file) of CLUSTER=cluster.json
	$(if $(POD),,$(error POD=namespace/name or POD=file says which pod))tests/upstream/build judge $(MINOR)
	$(BIN)/python -m tests.upstream.verdict --judge build/judge-1.$(MINOR) $(ARGS) "$(CLUSTER)" "$(POD)"

SCENARIOS ?= 1000
SEED ?= 1

fuzz: judge $(VENV)/.dev-stamp ## Compare the engine with MINOR=37 on random scenarios (SCENARIOS=1000 SEED=1)
	$(BIN)/python -m tests.upstream.fuzz --judge build/judge-1.$(MINOR) --minor $(basename $(MINOR)) \
		--scenarios $(SCENARIOS) --seed="$(SEED)" $(ARGS)

fuzz-cel: $(VENV)/.dev-stamp ## Compare selectors of devices with MINOR=37 (SCENARIOS=1000 expressions, SEED=1)
	tests/upstream/build cel $(MINOR)
	$(BIN)/python -m tests.upstream.cel_fuzz --cel build/cel-1.$(MINOR) --minor $(basename $(MINOR)) \
		--expressions $(SCENARIOS) --seed="$(SEED)" $(ARGS)

# The control plane of the tests and older kube-schedulers that some of them run.
BUILT_KUBE := build/kube-1.$(NEWEST)
OLDER_SCHEDULERS := $(addprefix $(BUILT_KUBE)/kube-scheduler-,1.36 1.33 1.30)

CONTROL_PLANE := $(addprefix $(BUILT_KUBE)/,etcd kube-apiserver kube-controller-manager kube-scheduler)

$(CONTROL_PLANE) &: tests/upstream/go.mod
	tests/upstream/build control-plane $(NEWEST)
	@touch $(CONTROL_PLANE)

$(OLDER_SCHEDULERS): $(BUILT_KUBE)/kube-scheduler-1.%: tests/upstream/modules/1.%.mod
	tests/upstream/build scheduler $* $(BUILT_KUBE)
	@touch $@

# With KUBE_BIN=FOLDER nothing is built.
KUBE := $(or $(KUBE_BIN),$(BUILT_KUBE))
ifndef KUBE_BIN
kube-bin: $(CONTROL_PLANE)
e2e: $(OLDER_SCHEDULERS)
endif

kube-bin:
	@for name in etcd kube-apiserver kube-controller-manager kube-scheduler; do \
		test -x "$(KUBE)/$$name" || lacks="$$lacks $$name"; done; test -z "$$lacks" || \
		{ echo "error: KUBE_BIN=$(KUBE) has no executable$$lacks; without KUBE_BIN all are built" >&2; exit 1; }

e2e: kube-bin $(VENV)/.dev-stamp ## Run the tests with a real control plane, which Go builds (or KUBE_BIN=FOLDER)
	KUBE_BIN="$(KUBE)" $(BIN)/python -m pytest tests/e2e/control_plane -n 2 --dist loadfile $(ARGS)

# No cache for lint-imports: it keeps reporting a module as missing after the module was added.
check: $(VENV)/.dev-stamp ## Lint, format, types, import contracts
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy $(SOURCES)
	$(BIN)/lint-imports --no-cache --no-logo

# Without a banner of the theme about a later MkDocs.
MKDOCS = NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs

docs: $(VENV)/.dev-stamp ## Build the site into build/site
	$(MKDOCS) build
	@echo "The site: build/site/index.html"

docs-serve: $(VENV)/.dev-stamp ## Show the site on 127.0.0.1:8000 and follow changes of docs/
	$(MKDOCS) serve $(ARGS)

media: $(VENV)/.dev-stamp ## Write the terminal session and the screenshots in docs/ (needs chromium)
	$(BIN)/python -m tests.e2e.website.cast
	$(BIN)/python -m tests.e2e.ui.screenshots

LOCKED := $(NEWEST) $(patsubst tests/upstream/modules/1.%.mod,%,$(wildcard tests/upstream/modules/*.mod))

# A minor without a patch means its newest one, also where its lock file has an older one.
ifeq ($(origin MINOR),command line)
parity: rejudge
endif

rejudge: $(VENV)/.dev-stamp
	$(if $(filter $(MINOR),$(LOCKED)),tests/upstream/build lock $(MINOR))
	tests/upstream/build judge $(MINOR)
	$(BIN)/python -m tests.parity.update --judge build/judge-1.$(MINOR) $(ARGS)

parity: $(VENV)/.dev-stamp ## Write the tables of docs/parity.md (MINOR=36: its verdicts are judged again before)
	$(BIN)/python -m tests.parity.parity
	$(BIN)/python -m tests.parity.versions --write

metrics: $(VENV)/.dev-stamp ## Write docs/metrics.md from /metrics and the alert rules
	$(BIN)/python -m tests.e2e.monitoring.page

chart-readme: $(VENV)/.dev-stamp ## Write the chart's README.md from its values.yaml
	$(BIN)/python -m tests.e2e.deploy.chart_readme

bench: $(VENV)/.dev-stamp ## Measure the targets and the growth of cost (others: ARGS="--only http")
	$(BIN)/python -m benchmarks $(ARGS)

FIGURES ?= build/figures.json

bench-full: $(VENV)/.dev-stamp ## Measure everything and write docs/performance.md (20 min on an idle machine)
	$(BIN)/python -m benchmarks --full --json $(FIGURES) $(ARGS)
	$(BIN)/python -m benchmarks.performance $(FIGURES)

performance: $(VENV)/.dev-stamp ## Write docs/performance.md from FIGURES=build/figures.json
	$(BIN)/python -m benchmarks.performance $(FIGURES)

REV ?= HEAD

bench-compare: $(VENV)/.dev-stamp ## Compare the speed with REV=HEAD (options: ARGS="--only filter")
	$(BIN)/python -m benchmarks.compare $(REV) $(ARGS)

bench-cluster: kube-bin $(VENV)/.dev-stamp ## Measure a real kube-scheduler with and without the extender (15 min)
	KUBE_BIN="$(KUBE)" $(BIN)/python -m benchmarks.cluster $(ARGS)

mutants: $(VENV)/.dev-stamp ## Mutation score of the guard (a sample: ARGS='"*7"')
	rm -rf mutants
	$(BIN)/mutmut run --max-children 2 $(ARGS)
	$(BIN)/python -m tests.tools.mutants

MINUTES ?= 10

soak: $(VENV)/.dev-stamp ## Serve MINUTES=10 under load and faults, with a verdict (options: ARGS="--nodes 500")
	$(BIN)/python -m benchmarks.soak --minutes $(MINUTES) $(ARGS)

# What the Dockerfile removes after it has installed the project.
BUILD_TOOLS := editables hatch-fancy-pypi-readme hatchling packaging pathspec pluggy tomlkit trove-classifiers

sbom: $(VENV)/.dev-stamp ## Write build/sbom.json, the SBOM of the image (CycloneDX)
	@$(BIN)/python -m venv --clear --without-pip build/sbom
	@$(PIP) --python build/sbom/bin/python install --require-hashes -r requirements.lock
	@$(PIP) --python build/sbom/bin/python uninstall --yes $(BUILD_TOOLS)
	@sed 's/^dynamic = .*/version = "$(VERSION)"/' pyproject.toml >build/sbom/pyproject.toml
	$(BIN)/cyclonedx-py environment build/sbom --pyproject build/sbom/pyproject.toml --output-reproducible \
		--output-file build/sbom.json

# The time of the last commit: two builds of one commit give the same bytes.
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct)

# The wheel is built from the sdist, with the locked build tools.
dist: $(VENV)/.dev-stamp ## Build wheel and sdist into build/dist
	rm -rf build/dist
	SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH) $(BIN)/python -m build --no-isolation --outdir build/dist
	$(BIN)/twine check --strict build/dist/*

HELM ?= helm
CHARTS ?= build/charts

chart: ## Package the Helm chart into build/charts (HELM=helm)
	@command -v "$(HELM)" >/dev/null || { echo "error: '$(HELM)' is not found; install helm \
	(https://helm.sh/docs/intro/install), or name it: make chart HELM=FILE" >&2; exit 1; }
	$(HELM) package deploy/helm/kube-scheduler-extender --destination $(CHARTS)

set-version: $(VENV)/.dev-stamp ## Write VERSION=0.1.0 into every file that has the version
	@$(BIN)/python -m tests.e2e.release.versions $(VERSION)

TAG ?= v$(VERSION)

addresses: $(VENV)/.dev-stamp ## Print where a release publishes image and chart
	@$(BIN)/python -m tests.e2e.release.addresses

check-release: $(VENV)/.dev-stamp ## Check that versions, CHANGELOG and addresses are those of TAG=v0.1.0
	@$(BIN)/python -m tests.e2e.release.check $(TAG)

release-notes: $(VENV)/.dev-stamp ## Write the CHANGELOG's section of TAG=v0.1.0 to build/release-notes.md
	@mkdir -p build
	$(BIN)/python -m tests.e2e.release.changelog $(TAG) >build/release-notes.md

# What is missing is said before anything is installed.
define LOCAL_CLUSTER
	@deploy/kind/cluster $@ check
	@$(MAKE) --no-print-directory install
	@EXTENDER=$(BIN)/extender deploy/kind/cluster $@ up
endef

kind: ## Create a cluster with kind, install the second scheduler, force a preemption and explain it
	$(LOCAL_CLUSTER)

kind-down: ## Remove that cluster
	@deploy/kind/cluster kind down

k3d: ## As `make kind`, with k3d
	$(LOCAL_CLUSTER)

k3d-down: ## Remove that cluster
	@deploy/kind/cluster k3d down

format: $(VENV)/.dev-stamp ## Format the code and apply ruff fixes
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

# The development lock is constrained by the runtime lock, so that the tested versions are the ones that run.
# --universal: one lock for all platforms. --fork-strategy fewest: one version for all Pythons.
COMPILE = $(BIN)/uv pip compile --quiet --generate-hashes --universal --python-version 3.11 --fork-strategy fewest \
	--custom-compile-command "make lock"

lock: | $(BIN)/pip ## Write the lock files from pyproject.toml (newer versions: ARGS=--upgrade)
	$(PIP) install uv==$(UV_VERSION)
	$(COMPILE) $(ARGS) pyproject.toml --group build --output-file requirements.lock
	$(COMPILE) $(ARGS) pyproject.toml --group dev --constraint requirements.lock --output-file requirements-dev.lock

clean: ## Remove the virtual environment, builds and caches
	rm -rf $(VENV) build dist mutants .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .benchmarks
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# --- the virtual environment ---

$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "error: '$(PYTHON)' is not Python 3.11 or newer; choose one: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; \
		exit 1; }
	@echo "Creating $(VENV)"
	@$(PYTHON) -m venv --clear $(VENV)

# Both locks contain the build tools, so that every package is installed with a hash.
$(VENV)/.runtime-stamp: requirements.lock pyproject.toml | $(BIN)/pip
	@echo "Installing requirements.lock into $(VENV)"
	@$(PIP) install --require-hashes -r requirements.lock
	@$(PIP) install --no-build-isolation --no-deps --editable .
	@touch $@

$(VENV)/.dev-stamp: requirements-dev.lock pyproject.toml | $(BIN)/pip
	@echo "Installing requirements-dev.lock into $(VENV)"
	@$(PIP) install --require-hashes -r requirements-dev.lock
	@$(PIP) install --no-build-isolation --no-deps --editable .
	@touch $(VENV)/.runtime-stamp $@
