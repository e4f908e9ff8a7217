# Everything a newcomer or a machine runs. Needs Python 3.11 or newer, pip, make and git; nothing else.
PYTHON ?= python3
BIN := .venv/bin
# Where tests find the weights of models, so that they are fetched once a machine.
MODELS ?= $(or $(CONTEXTINFINITY_LOCAL__MODELS_DIR),$(HOME)/.cache/contextinfinity/models)
TESTS = CONTEXTINFINITY_LOCAL__MODELS_DIR=$(MODELS) $(BIN)/python -m pytest -n 6 --dist loadgroup
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

# Modules are compiled once, not in each of the hundreds of processes that tests start.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run setup test check format docs screenshots bench bench-full bench-peers peers torture storm endurance fuzz proof clients screenshots-web dist dist-check clean

run: .venv/.run ## install what a chat needs and start one
	@$(BIN)/cix chat

setup: .venv/.setup ## everything for development, in .venv

test: .venv/.setup ## all tests
	$(TESTS) --durations 50 --durations-min 0.5

check: .venv/.setup ## lint, format, strict types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/.setup ## put the code into the house format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: ## the documentation as a web site, in site/
	@test -x .venv-docs/bin/mkdocs || { $(PYTHON) -m venv .venv-docs \
	  && .venv-docs/bin/python -m pip install --quiet --disable-pip-version-check mkdocs-material; }
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --quiet --strict

screenshots: .venv/.setup ## the pictures of the terminal workbench in docs/pictures
	$(BIN)/python -m benchmarks.tui_pictures

bench: .venv/.setup ## figures up to 100,000 turns, beside raw SQLite
	$(BIN)/python -m benchmarks

bench-full: .venv/.setup ## the same with 1,000,000 turns; its data is kept in benchmarks/data
	$(BIN)/python -m benchmarks --full

peers: ## install what the benchmarks `recall` and `peers` compare with, in .venv-peers
	@$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check aiosqlite chromadb langchain langchain-community \
	  langchain-core langgraph langgraph-checkpoint-sqlite llama-index-core llm matplotlib mem0ai openai-agents sqlalchemy

bench-peers: .venv/.setup peers ## the same conversation in every library of `make peers`, with a plot
	$(BIN)/python -m benchmarks peers
	.venv-peers/bin/python benchmarks/plots.py

clients: .venv/.setup ## real clients that are too large for every run, against every wire
	CONTEXTINFINITY_PROOF=1 $(TESTS) --timeout 0 -m proof tests/doors/v1
	$(BIN)/python -m benchmarks.clients

torture: .venv/.setup ## kill a working process 10,000 times and look at what it left; takes about half an hour
	$(BIN)/python -m benchmarks.torture --trials 10000 --save

fuzz: .venv/.setup ## damaged inputs for every parser and every door of a server; takes about an hour
	$(BIN)/python -m benchmarks.fuzz --seconds 60 --save

storm: .venv/.setup ## 200 streams at servers that are killed, of two workers, of four, of two hosts on PostgreSQL: is every message there, once?
	$(BIN)/python -m benchmarks.storm --streams 200 --workers 2 --locks 12 --save
	$(BIN)/python -m benchmarks.storm --streams 200 --workers 4 --locks 12 --save
	$(BIN)/python -m benchmarks.storm --streams 200 --workers 2 --hosts 2 --save

endurance: .venv/.setup ## 50,000 turns in one process: do memory, prompts and latency stay flat? 3,000 resent ones: is a small window ever passed?
	$(BIN)/python -m benchmarks.endurance --turns 50000 --save
	$(BIN)/python -m benchmarks.resending

proof: .venv/.setup torture storm endurance fuzz ## everything at full size: kills, storms, endurance, fuzz, fault sweeps, large properties; takes hours
	CONTEXTINFINITY_PROOF=1 $(TESTS) --timeout 0 -m 'proof or not proof'
	CONTEXTINFINITY_TEST_LEDGER=postgresql $(TESTS) --timeout 0 tests/scenarios tests/recovery tests/properties

screenshots-web: .venv/.setup ## pictures of the web page in docs/images, taken in chromium
	$(BIN)/python -m tests.doors.web.screenshots docs/images

dist: ## wheels and source archives of both distributions, in dist/
	rm -rf dist
	@test -x .venv-dist/bin/cyclonedx-py || { $(PYTHON) -m venv .venv-dist \
	  && .venv-dist/bin/python -m pip install --quiet --disable-pip-version-check build cyclonedx-bom; }
	.venv-dist/bin/python -m build --outdir dist .
	.venv-dist/bin/python -m build --outdir dist testing

dist-check: dist ## every extra of the wheel in an environment of its own; bill of materials and page of licences
	@set -e; for extra in base local workspace postgres encryption tui redis minilm all; do \
	  case $$extra in base) extras=;; all) extras='[local,workspace,postgres,encryption,tui,redis,minilm]';; *) extras="[$$extra]";; esac; \
	  rm -rf .venv-wheel; $(PYTHON) -m venv .venv-wheel; \
	  .venv-wheel/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt "$$(ls dist/contextinfinity-*.whl)$$extras"; \
	  (cd dist && ../.venv-wheel/bin/python ../deploy/try_wheel.py $$extra && ../.venv-wheel/bin/cix --version >/dev/null); \
	done
	.venv-dist/bin/cyclonedx-py environment --output-reproducible --mc-type library --pyproject pyproject.toml \
	  -o dist/contextinfinity.cdx.json .venv-wheel/bin/python
	$(PYTHON) deploy/licences.py dist/contextinfinity.cdx.json > docs/reference/licences.md

clean: ## remove what the other targets made
	rm -rf .venv .venv-docs .venv-peers .venv-dist .venv-wheel dist site .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "ContextInfinity needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version). Try: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -m venv .venv

.venv/.run: pyproject.toml constraints.txt | .venv/bin/python
	@echo "Installing what a chat needs into .venv …"
	@$(INSTALL) --editable '.[local,tui,workspace]'
	@touch $@

.venv/.setup: pyproject.toml testing/pyproject.toml constraints.txt | .venv/bin/python
	$(INSTALL) --editable '.[local,minilm,tui,workspace,encryption,dev]' --editable testing
	@for model in built-in minilm; do CONTEXTINFINITY_LOCAL__MODELS_DIR=$(MODELS) $(BIN)/cix model get $$model \
	  || echo "Tests of $$model will try again."; done
	@touch $@ .venv/.run
