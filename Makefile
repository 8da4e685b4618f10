# make demo    sets up, then trains and tries a translator on the embedded corpus; no data needed
# make test    sets up, then lints, checks types and runs every test
# make gpu     checks and measures mtkit on a GPU, in the Python that is active (PYTHON): two parts of
#              at most nine minutes, gpu-check and gpu-train; data from MTKIT_TEST_DATA
# make docs    sets up, then regenerates docs/reference from the code, and builds the site in site/
# make format  formats the code
# make clean   removes the environment, the demo and the site

PYTHON ?= python3
BIN := $(CURDIR)/.venv/bin
DEMO := runs/demo

.PHONY: demo test lint run-tests gpu gpu-check gpu-train docs format clean

demo: .venv/installed
	mkdir -p $(DEMO)
	cd $(DEMO) && { test -e mtkit.toml || $(BIN)/mtkit init phrasebook-en-de; }
	cd $(DEMO) && $(BIN)/mtkit run
	cd $(DEMO) && echo "The old man buys three red apples." | $(BIN)/mtkit translate

test: lint run-tests

lint: .venv/installed-for-tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

run-tests: .venv/installed-for-tests
	$(BIN)/python -m pytest -n auto --dist worksteal

gpu: gpu-check gpu-train

gpu-check:
	$(PYTHON) benchmarks/gpu.py check

gpu-train:
	$(PYTHON) benchmarks/gpu.py train --set training.cuda_graphs=true

docs: .venv/installed-for-docs
	$(BIN)/python docs/generate_reference.py
	$(BIN)/python -m properdocs build --strict --quiet
	@echo "open $(CURDIR)/site/index.html"

format: .venv/installed-for-tests
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv $(DEMO) site

# Installing compiles the kernels, so it runs again when their source has changed.
KERNELS := hatch_build.py $(wildcard mtkit/engine/cpp/*.h mtkit/engine/cpp/*.cpp)

# Python compiles a module at its first import; compiling all of them here takes a minute.
INSTALL := $(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable

.venv/installed: pyproject.toml constraints.txt $(KERNELS)
	$(PYTHON) -m venv .venv
	$(INSTALL) .
	touch $@

.venv/installed-for-tests: pyproject.toml constraints.txt $(KERNELS)
	$(PYTHON) -m venv .venv
	$(INSTALL) '.[dev,test]'
	touch .venv/installed $@

.venv/installed-for-docs: .venv/installed
	$(INSTALL) '.[docs]'
	touch $@
