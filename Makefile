# Everything runs in .venv, which the first target makes; python3 must be 3.11 or later.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: run test lint corpus lab test-old-trl pages clean

.venv/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt torch==2.13.0
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	$(BIN)/python -m compileall -q grpo_doctor checks reports
	touch $@

run: .venv/.installed  ## the main job on its embedded default
	$(BIN)/grpo-doctor run --out runs/default-$$(date +%Y%m%d-%H%M%S)

test: .venv/.installed  ## the whole suite
	$(BIN)/python -m pytest -n 2 --dist worksteal

lint: .venv/.installed  ## style, types and the one-way contract
	$(BIN)/ruff check grpo_doctor checks reports tests
	$(BIN)/ruff format --check grpo_doctor checks reports tests
	$(BIN)/mypy grpo_doctor checks reports tests
	$(BIN)/lint-imports

corpus: .venv/.installed  ## analyze over ../shared/logs, held against labels.csv
	$(BIN)/python -m tests.corpus

lab: .venv/.installed  ## every fault of the engine on three seeds, and what is named
	$(BIN)/python -m tests.lab

.venv-old-trl/.installed: pyproject.toml constraints-old-trl.txt
	test -x .venv-old-trl/bin/python || $(PYTHON) -m venv .venv-old-trl
	.venv-old-trl/bin/pip install --quiet --constraint constraints-old-trl.txt torch==2.13.0
	.venv-old-trl/bin/pip install --quiet --constraint constraints-old-trl.txt hypothesis pytest pytest-timeout --editable '.[trl]'
	touch $@

test-old-trl: .venv-old-trl/.installed  ## the oldest TRL that is supported, 0.24, on the same tests
	.venv-old-trl/bin/python -m pytest tests/integrations

pages: .venv/.installed  ## checks/README.md and checks/pages, from the docstrings
	$(BIN)/python -m grpo_doctor.pages

clean:
	rm -rf .venv .venv-old-trl runs logs build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
