# Every target sets itself up: a virtual environment in the checkout, reused while up to date.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Two stages of one environment: what `lossleuth` itself needs, and what its tests need on top.
DEMO_READY := $(VENV)/demo-ready
READY := $(VENV)/ready
DOCS_READY := $(VENV)/docs-ready
# torch is named on every pip command: elsewhere the default index may offer a build for GPUs.
PIP_INSTALL := $(BIN)/pip install --quiet --constraint constraints.txt torch==2.13.0

.DEFAULT_GOAL := help
# `docs` is a folder too.
.PHONY: help demo docs test bench lint format types unit slow browser compat picture clean

help:  ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:[^#]*## /\t/'

NATIVE := hatch_build.py $(wildcard src/lossleuth/native/*.cpp src/lossleuth/native/*.h)

$(DEMO_READY): pyproject.toml constraints.txt $(NATIVE)
	$(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) --editable .
	@touch $@

$(READY): $(DEMO_READY)
	$(PIP_INSTALL) --editable '.[dev]'
	@touch $@

$(DOCS_READY): $(DEMO_READY)
	$(PIP_INSTALL) --editable '.[docs]'
	@touch $@

demo: $(DEMO_READY)  ## judge a founding case: what was believed, what is true, what proves it
	$(BIN)/lossleuth demo

test: lint types unit  ## lint, format check, strict types, tests

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

unit: $(READY) browser
	$(BIN)/pytest -n 2 -m "not slow"

browser:  ## Chromium and its driver, with which reports are tested
	@command -v chromedriver >/dev/null || (apt-get -qq update && apt-get -qq install -y chromium chromium-driver >/dev/null) \
		|| echo "no Chromium, and it could not be installed: tests in a browser are skipped"

slow: $(READY)  ## the suites too slow for every change
	$(BIN)/pytest -m slow

bench: $(READY)  ## benchmarks, as ratios measured in one interleaved run
	$(BIN)/python -m bench

compat:  ## the demo and the observing tests with the oldest and the newest torch: gigabytes
	$(PYTHON) tests/compat.py

picture: $(READY) browser  ## the picture in the README
	$(BIN)/python docs/picture.py

docs: $(DOCS_READY)  ## the documentation as a site, in site/; fails on a broken link
	$(BIN)/python docs/reference.py
	@# Not --quiet: it hides warnings from --strict too, and then no broken link fails.
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	$(BIN)/python docs/foreign_urls.py site

format: $(READY)  ## rewrite the sources in the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## remove the environment and everything made
	rm -rf $(VENV) .compat runs site .pytest_cache .mypy_cache .ruff_cache .hypothesis
