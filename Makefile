.DEFAULT_GOAL := help
PYTHON ?= python3
TARGET ?= cpu-demo
KILLS ?= 64
BIN := .venv/bin
STAMP := .venv/.installed
DEV := .venv/.installed-dev

.PHONY: help demo run lab test torture lint sync bench clean

help: ## show this help
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-7s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(STAMP) ## run all eight phases for real on this machine's CPU
	$(BIN)/keyelab run --target cpu-demo

run: $(STAMP) ## run all phases for TARGET, for example make run TARGET=k100ai
	$(BIN)/keyelab run --target $(TARGET)

lab: $(STAMP) ## open JupyterLab on notebooks/
	$(BIN)/jupyter lab --notebook-dir=. notebooks/01_env_check.ipynb

test: $(DEV) ## run every test that this machine can run
	$(BIN)/python -m pytest $(TESTS)

lint: $(DEV) ## ruff and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy keyelab

sync: $(DEV) ## write notebooks/*.ipynb from their .py (keeping cell ids), and the record schema
	$(BIN)/jupytext --to ipynb --update --update-metadata '{"jupytext": null}' notebooks/*.py
	$(BIN)/python -c 'from keyelab import files; from keyelab.record import run; files.write_json(files.project_root() / "docs/run.schema.json", run.json_schema())'

torture: $(DEV) ## kill runs at random moments, KILLS of them (64), in an order by SEED
	KILLS=$(KILLS) $(BIN)/python -m pytest tests/e2e/test_torture.py -v

bench: $(DEV) ## tests that measure time, as ratios inside one run
	$(BIN)/python -m pytest -m bench tests/bench

clean: ## remove the environment, work/ and caches; records/ stay
	rm -rf .venv work build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

# Servers often lack the libGL that opencv-python needs; the headless wheel is the same module.
define working_opencv
$(BIN)/python -c 'import cv2' 2>/dev/null || { \
	$(BIN)/pip uninstall -q -y opencv-python opencv-python-headless; \
	$(BIN)/pip install -q opencv-python-headless; }
endef

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("keyelab needs Python 3.10 or newer, found " + sys.version.split()[0] + "; next: make demo PYTHON=python3.12" if sys.version_info < (3, 10) else 0)'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q -e .
	$(working_opencv)
	touch $@

$(DEV): $(STAMP)
	$(BIN)/pip install -q -e '.[dev]'
	$(working_opencv)
	touch $@
