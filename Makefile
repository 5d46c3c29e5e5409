# Everything a developer does, by name. `make help` lists it.
SHELL := /bin/bash
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed
# Debian's python3 and macOS's may be older than 3.11: take the newest that is there.
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)

.DEFAULT_GOAL := help
.PHONY: help setup model run test check format bench bench-jobs bench-retrieval bench-mem0 bench-scale bench-brain bench-profile bench-rules soak constraints clean bench-chats

help: ## Show this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

setup: $(STAMP) ## Make the virtual environment .venv and install everything into it

$(STAMP): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Recollect needs Python 3.11 or newer. Debian: apt install python3 python3-venv. macOS: brew install python@3.12"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "Python's venv is missing. Debian: apt install python3-venv"; exit 1; }
	@echo "Installing into $(VENV), once; this takes a few seconds to a minute."
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	@$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: \
		-r <(awk '/^[^ #]/ {keep = /^uv==/} keep' constraints.txt)
	@$(VENV)/bin/uv pip install --quiet --system-certs --python $(PY) --require-hashes -r constraints.txt
	@$(VENV)/bin/uv pip install --quiet --system-certs --python $(PY) --no-deps --no-build-isolation --editable .
	@touch $(STAMP)

model: setup ## Fetch the model that turns text into vectors, once; everything works without it
	@$(VENV)/bin/recollect models pull > /dev/null || true

run: model ## Start Recollect with its own Postgres on http://127.0.0.1:8000
	@exec $(VENV)/bin/recollect serve

test: model ## Run all tests
	@$(PY) -m pytest

check: setup ## Lint, types, architecture, sizes
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/mypy
	@$(VENV)/bin/lint-imports --no-cache
	@$(PY) tests/architecture/sizes.py

format: setup ## Format the code and mend what can be mended
	@$(VENV)/bin/ruff format .
	@$(VENV)/bin/ruff check --fix .

bench-jobs: setup ## Measure jobs and events alone
	@$(PY) -m bench jobs

bench-retrieval: model ## Measure how much of what answers a question is found
	@$(PY) -m bench retrieval

bench-mem0: setup ## Measure the memory engine beside mem0's library
	@$(PY) -m bench mem0

bench-scale: setup ## Measure a search among 100,000 memories against one among 10,000
	@$(PY) -m bench scale

bench-profile: setup ## Measure reading, storing and updating profiles
	@$(PY) -m bench profile

bench-chats: setup ## Measure the import of chats
	@$(PY) -m bench chats

bench-brain: setup ## Measure saving, loading and reconciling what is known about users and companies
	@$(PY) -m bench brain

soak: setup ## Kill worker, server and Postgres at random, over and over; takes half an hour
	@$(PY) -m pytest -n 0 tests/faults/test_flow.py --soak 20

bench-rules: setup ## Measure how many rules are learnt from transcripts, and how many alarms are false
	@$(PY) -m bench rules

bench: model ## Measure the promises of speed; prints a table, writes bench/results/
	@$(PY) -m bench

constraints: ## Pin the newest versions of all dependencies in constraints.txt
	@uv=$$(test -x $(VENV)/bin/uv && echo $(VENV)/bin/uv || echo uv); \
	$$uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate \
		--no-header --extra celery --extra dev --extra mem0 pyproject.toml --output-file constraints.txt

clean: ## Remove the virtual environment and caches (never data)
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist
