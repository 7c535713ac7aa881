# Every command of the project. `make` alone prints this menu.
PYTHON ?= python3
VENV := .venv
READY := $(VENV)/.ready
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# A choice of tests (ARGS="-k reflector") may leave one group without any; then pytest ends with 5.
NONE_IS_FINE = $(if $(ARGS),|| test $$? -eq 5)

# What a release is made with: the first of docker, podman and buildah, on a base that is named by its digest
DIST ?= dist
HELM ?= helm
ENGINE ?=
BASE ?=
PLATFORMS ?=
SIGN ?=

# $(call groups,A B): groups of tests at once, since tests of servers wait much. Each is printed whole when it ends; what
# failed in any of them stands at the end.
FAILURES ?= build/failures
define groups
@rm -rf $(FAILURES) && mkdir -p $(FAILURES)
@KUBEDELTA_FAILURES=$(abspath $(FAILURES)) $(MAKE) --no-print-directory -j --output-sync=target $(1) || { cat $(FAILURES)/*; exit 1; }
endef

QUICK = not soak and not image and not browser and not long
# What waited stands at the end of its group.
SLOWEST = --durations=5 --durations-min=10

# The site: pages, and the files that they link to
DOCS ?= build/docs
PAGES = $(wildcard *.md docs/*.md docs/*/*.md docs/images/* recipes/*/*.md) bridge/app/page/static/icon.svg LICENSE requirements.txt requirements-build.txt sinks/README.md $(wildcard sinks/*.py) \
	tests/contracts/test_every_sink.py benchmarks/README.md $(wildcard benchmarks/results/*) \
	config/reference.yaml $(wildcard config/examples/* deploy/*.yaml deploy/replicas/* deploy/chart/*.yaml deploy/chart/files/*)

# Rooms and units sync thousands of small files, in memory where there is room. The servers' groups write to the disk.
IN_MEMORY = TMPDIR="$$($(BIN)/python -m tests.kit.memory)"

# The tests start some hundred processes, and each would compile the bridge anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup run test test-rooms test-units test-kafka test-servers test-image test-page screenshots test-scenarios test-long test-pythons wheels sbom release check docs fmt e2e bench bench-quick size faults soak lock reference chart clean

help: ## print this menu
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## / — /' | awk -F' — ' '{printf "  %-15s %s\n", $$1, $$2}'

setup: $(READY) ## make .venv with the locked dependencies and the kubedelta command in it

$(READY): requirements-build.txt requirements-dev.txt pyproject.toml reader/pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "kubedelta needs Python 3.11 or newer; $(PYTHON) is %d.%d" % sys.version_info[:2])'
	$(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) --require-hashes --only-binary :all: -r requirements-build.txt
	$(PIP_INSTALL) --require-hashes --only-binary :all: --no-binary nkeys --no-build-isolation -r requirements-dev.txt
	$(PIP_INSTALL) --no-deps --no-build-isolation -e ./reader -e .
	$(BIN)/python -m compileall -q kubedelta bridge sinks config reader # or each start compiles them, where PYTHONDONTWRITEBYTECODE is set
	@touch $(READY)

run: $(READY) ## the main job on the embedded default: kubedelta demo
	$(BIN)/kubedelta demo $(ARGS)

test: $(READY) ## everything that needs no compiled server, with NATS and, where Java and Maven are, Kafka; five minutes
	@echo "Groups of tests run at once; each is printed whole when it ends."
	$(call groups,test-kafka test-rooms test-units)

e2e: $(READY) ## whole processes, the chart and the longest stories against servers that Go compiles, at first for ten minutes (KUBERNETES=1.34)
	@echo "Groups of tests run at once; each is printed whole when it ends. The first time, servers are built."
	$(call groups,test-scenarios test-servers)
	@$(MAKE) --no-print-directory test-long

test-rooms: $(READY) ## the rooms of the bridge
	$(IN_MEMORY) $(BIN)/pytest -m "$(QUICK) and not go and not java" tests/bridge $(SLOWEST) $(ARGS) $(NONE_IS_FINE)

test-units: $(READY) ## sinks, configuration, contracts, properties, documents (NATS=2.12)
	$(IN_MEMORY) $(BIN)/pytest -m "$(QUICK) and not go and not java" --ignore=tests/bridge --ignore=tests/scenarios $(SLOWEST) $(ARGS) $(NONE_IS_FINE)

test-kafka: $(READY) ## what needs Kafka (KAFKA=3.9)
	$(BIN)/pytest --servers -m "java and not go and $(QUICK)" --ignore=tests/scenarios $(SLOWEST) $(ARGS) $(NONE_IS_FINE)

test-servers: $(READY) ## rooms and the chart against a real cluster
	$(BIN)/pytest --servers -m "go and $(QUICK)" --ignore=tests/scenarios $(SLOWEST) $(ARGS) $(NONE_IS_FINE)

test-image: $(READY) ## the image, built and run as the chart's pod; needs root, buildah, runc and mmdebstrap (PLATFORM=linux/arm64)
	$(BIN)/pytest -m image $(if $(PLATFORM),--timeout=9000) tests/deploy $(ARGS)

test-scenarios: $(READY) ## whole processes between real servers, one story per file
	$(BIN)/pytest -rP -m "$(QUICK)" tests/scenarios $(SLOWEST) $(ARGS) $(NONE_IS_FINE)

test-long: $(READY) ## the longest stories, as a part of `make e2e`; seven to nine minutes
	$(BIN)/pytest -rP -m "long and not soak" tests/scenarios tests/deploy tests/sinks/nats $(ARGS)

check: $(READY) ## style, types, who imports whom, the Dockerfile
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/hadolint Dockerfile

docs: $(READY) ## a site of the documents in build/docs/site; a broken link is an error
	@rm -rf $(DOCS) && mkdir -p $(DOCS)/pages
	@cp --parents $(PAGES) $(DOCS)/pages && cp docs/zensical.toml $(DOCS)
	cd $(DOCS) && $(abspath $(BIN))/zensical build --strict

fmt: $(READY) ## format, and mend what can be mended by itself
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test-engines: $(READY) ## ClickHouse, Flink and PostgreSQL read our rows; installs 270 MB into .venv first, and 220 MB by Maven
	$(PIP_INSTALL) --require-hashes --only-binary :all: -r requirements-engines.txt
	$(BIN)/pytest tests/documents/test_tables.py tests/recipes/test_flink.py tests/recipes/test_postgresql.py $(ARGS)

test-page: $(READY) ## the page in Chromium; as root it installs Debian's package first, and playwright into .venv, 45 MB
	$(PIP_INSTALL) --require-hashes --only-binary :all: -r requirements-browser.txt
	@command -v chromium chromium-browser google-chrome >/dev/null || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null \
	&& { apt-get update -q=2 && apt-get install -q=2 -y --no-install-recommends chromium >/dev/null; } \
	|| echo "chromium is not here and cannot be installed: the page's tests are left out"; }
	$(BIN)/pytest -m browser tests/browser $(ARGS)

screenshots: $(READY) ## renew docs/images/page-*.png; after `make test-page`
	$(BIN)/python -m tests.browser.screenshots

test-pythons: $(READY) ## the room tests on every Python of 3.11 to 3.14 that is found here
	$(BIN)/python -m tests.pythons $(ARGS)

wheels: $(READY) ## looks up wheels of the locked dependencies, for both platforms of the image and each Python
	@for machine in x86_64 aarch64; do for python in 3.11 3.12 3.13 3.14; do echo "$$machine, Python $$python" \
	&& $(BIN)/uv pip install --quiet --dry-run --target build/none --python-platform $$machine-manylinux_2_28 --python-version $$python \
	--require-hashes --only-binary :all: --no-binary nkeys --no-build-isolation -r requirements.txt || exit 1; done; done

sbom: $(READY) ## dist/sbom.cdx.json: what the image and the wheel depend on, as CycloneDX
	@mkdir -p $(DIST)
	$(BIN)/cyclonedx-py requirements requirements.txt --pyproject pyproject.toml --mc-type application --output-reproducible --of JSON -o $(DIST)/sbom.cdx.json

release: $(READY) ## wheel, image, chart, bill of materials, provenance, notes and checksums in dist/; uploads nothing (BASE=python:…@sha256:… SIGN=key)
	$(BIN)/python -m deploy.release --dist "$(DIST)" --helm "$(HELM)" --engine "$(ENGINE)" --base "$(BASE)" --platforms "$(PLATFORMS)" --sign "$(SIGN)" $(ARGS)

bench: $(READY) ## the bridge beside its peers, side by side; needs Go, Rust, Java and hours (ARGS="--only kafka --rounds 1")
	$(BIN)/python -m benchmarks $(ARGS)

size: $(READY) ## how large the house is: lines of code, files, rooms, floors, words
	$(BIN)/python -m benchmarks.size

bench-quick: $(READY) ## the bridge against the floor in under two minutes; fails on a blunder
	$(BIN)/python -m benchmarks.quick $(ARGS)

faults: $(READY) ## two replicas and their servers killed, frozen and cut off, and what arrives counted; an hour and a half (ARGS="--only freeze --rounds 1")
	$(BIN)/python -m benchmarks.faults $(ARGS)

soak: $(READY) ## the long tests that `make test` leaves out, and forty times the examples of properties
	$(BIN)/pytest -m soak -s $(ARGS)
	KUBEDELTA_EXAMPLES=40 $(BIN)/pytest -m hypothesis $(ARGS) $(NONE_IS_FINE)

lock: $(READY) ## renew the five requirements files from pyproject.toml
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --python-version 3.11 --custom-compile-command "make lock" pyproject.toml --extra cel --extra encryption --extra otel --no-emit-package kubedelta-reader -o requirements.txt
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --python-version 3.11 --custom-compile-command "make lock" pyproject.toml --extra cel --extra encryption --extra otel --group dev --no-emit-package kubedelta-reader -o requirements-dev.txt
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --python-version 3.11 --custom-compile-command "make lock" --group pyproject.toml:build -o requirements-build.txt
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --python-version 3.11 --custom-compile-command "make lock" --group pyproject.toml:engines -o requirements-engines.txt
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --python-version 3.11 --custom-compile-command "make lock" --group pyproject.toml:browser -o requirements-browser.txt

reference: chart ## renew config/reference.yaml and the generated files of deploy/chart from the options
	$(BIN)/kubedelta schema --reference > config/reference.yaml

chart: $(READY) ## renew the generated files of deploy/chart
	$(BIN)/python -m deploy.generator

clean: ## remove what setup and the tools made
	rm -rf $(VENV) build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
