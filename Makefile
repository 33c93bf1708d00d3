# Every target sets up what it needs in .venv, once; nothing else has to be installed but Python 3.11 and make,
# and Chromium and npm for the browser tests.
ifeq ($(OS),Windows_NT)
PYTHON ?= python
SCRIPTS := Scripts
else
PYTHON ?= python3
SCRIPTS := bin
endif
BIN := .venv/$(SCRIPTS)
LOWEST := .venv-lowest/$(SCRIPTS)/python
AXE := axe-core@4.14.0  # the accessibility checks, a test's tool that no user gets
UPLOT := uplot@1.6.32  # draws the lines and axes of a report
VENDOR := src/tempograd/html_report/vendor
MODELS := huggingface forecasters lightning tsai estimators  # libraries that can be installed together
WORKERS ?= auto  # processes of the tests, by default one for each core
FUZZ ?= 30000  # calls of make fuzz
# the browser tests of every change
PAGE := tests/browser/test_network.py $(or $(wildcard tests/browser/test_demo_page.py),tests/browser/test_opening.py -k "every_view_is_drawn and classifier and laptop")
GPU := tests/gpu tests/metrics/test_removal.py tests/models/test_networks.py
DRAWN := tests/core/test_rng.py tests/core/test_stats.py tests/engine tests/explainers tests/metrics tests/models
CONSTRAINTS ?= constraints.txt
# exact versions; after make clean, make test CONSTRAINTS= takes the newest of everything
# nothing is compiled in advance: Python does it on import, and most of what is installed is never imported; where
# it is told not to keep what it compiles, as in many containers, every process would compile torch anew, for seconds
unexport PYTHONDONTWRITEBYTECODE
INSTALL := -m pip install --quiet --disable-pip-version-check --no-compile $(if $(CONSTRAINTS),--constraint $(CONSTRAINTS))
PIP := $(BIN)/python $(INSTALL)

.PHONY: demo test test-paper test-all test-slow test-gpu test-lowest snapshots fuzz lock test-draws test-many-draws test-page test-browser
.PHONY: report-pictures vendor models $(MODELS:%=models-%) lint docs dist wheel bench bench-pages bench-report tables missing keep clean

demo: .venv/core  # TIMING's report first, in demo/report.html; the other methods join it; Ctrl-C keeps what is there
	$(BIN)/tempograd demo --out demo

test: .venv/test  # of the library, five minutes on two slow cores
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal

test-paper: .venv/test  # of the paper's reproduction: data sets, runner, tables, the kept results
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal reproduction

test-all: test test-paper test-slow fuzz test-browser test-draws test-lowest  # weekly and before a release: hours

test-slow: .venv/others  # other libraries' models, Ray, studies in perf, wider grids, many examples of properties
	$(BIN)/python -m pytest -m slow src tests reproduction
	TEMPOGRAD_EXAMPLES=many $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal tests/properties

snapshots: .venv/test  # sentences and pictures that tests compare with, written anew: read and look at every difference
	$(BIN)/python -m pytest --renew tests reproduction

test-lowest: .venv-lowest/test  # both with the lowest versions that pyproject.toml declares; Python 3.11, 6 GB with CUDA
	$(LOWEST) -m pytest --numprocesses $(WORKERS) --dist worksteal
	$(LOWEST) -m pytest --numprocesses $(WORKERS) --dist worksteal reproduction

fuzz: .venv/test  # half-right calls, files and commands over several seeds: about a quarter of an hour on two cores
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz.many --calls $(FUZZ)

lock: .venv/test  # scores and tables of the commit before the new layout and of this tree, bit for bit
	$(BIN)/python tests/lock/compare.py --tables

test-draws: .venv/test  # what is learnt or drawn, with other seeds and other rounding, with one thread and with two
	TEMPOGRAD_TEST_SEED=2 $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal $(DRAWN)
	TEMPOGRAD_TEST_SEED=1 $(BIN)/python -m pytest $(DRAWN)

test-many-draws: .venv/test  # the same for several seeds, and for the arithmetic of other processors: half an hour
	for seed in 3 4 5; do TEMPOGRAD_TEST_SEED=$$seed $(BIN)/python -m pytest $(DRAWN) || exit 1; done
	ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=SSE41 MKL_CBWR=COMPATIBLE $(BIN)/python -m pytest $(DRAWN)

# with a GPU: PYTHON=python3 takes an interpreter as it is, with torch, pyarrow and pytest, and sets nothing up
GIVEN := $(filter command,$(firstword $(origin PYTHON)))
ON_GPU := $(if $(GIVEN),PYTHONPATH=$(CURDIR)/src $(PYTHON),$(BIN)/python)
test-gpu: $(if $(GIVEN),,.venv/test)
	$(ON_GPU) -c "import torch; assert torch.cuda.is_available(), 'torch finds no GPU'"
	$(ON_GPU) -m pytest -m gpu $(GPU)

test-page: .venv/browser  # one report, opened and clicked through, and networks that run in a page
	$(BIN)/python -m pytest -m browser $(PAGE)

test-browser: .venv/browser  # every report in Chromium
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile -m browser tests/browser

models: $(MODELS:%=models-%) .venv/core  # models of other libraries in three lines each, and docs/models.md; an environment for each group
	$(BIN)/python -m tests.other_libraries.models_page

$(MODELS:%=models-%): models-%: .venv-models/%/installed
	OMP_NUM_THREADS=1 .venv-models/$*/$(SCRIPTS)/python -W ignore -m tests.other_libraries.check_models $*

report-pictures: demo .venv/browser  # of the demo's report, for the documentation
	$(BIN)/python -m tests.browser.pictures demo/report.html docs/pictures
	$(BIN)/tempograd plot demo/timing.safetensors --series P-704 --shown 'vibration,bearing temperature,flow' \
		--out docs/pictures/demo_series.png --force

vendor:  # the chart library of the report, in the version named above, with its licence
	mkdir -p .venv
	npm pack --silent --pack-destination .venv $(UPLOT)
	tar -xzf .venv/uplot-*.tgz -C .venv
	cp .venv/package/dist/uPlot.iife.min.js .venv/package/dist/uPlot.min.css $(VENDOR)
	cp .venv/package/LICENSE $(VENDOR)/uPlot.LICENSE.txt
	rm -r .venv/package .venv/uplot-*.tgz

lint: .venv/lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: .venv/docs  # docs/_build/html/index.html; every example and every block of code runs
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet docs docs/_build/html

dist: .venv/release  # dist/: the wheel and the sources, as they are published
	rm -rf dist
	$(BIN)/python -m hatchling build
	$(BIN)/python -m twine check --strict dist/*

wheel: dist  # the wheel alone in a bare environment, where the README's blocks run; README=--short trains less
	$(PYTHON) -m venv --clear .venv/bare
	.venv/bare/$(SCRIPTS)/python $(INSTALL) dist/*.whl
	OMP_NUM_THREADS=1 .venv/bare/$(SCRIPTS)/python .ci/readme.py README.md $(README)

bench: .venv/peers  # about a quarter of an hour, on a machine that does nothing else
	$(BIN)/python perf/bench.py

bench-pages: .venv/core  # docs/speed.md, docs/sampling.md, docs/tuning.md and their pictures, from what was measured
	$(BIN)/python perf/speed_page.py
	$(BIN)/python perf/sampling_page.py
	$(BIN)/python perf/tuning_page.py

bench-report: .venv/browser
	$(BIN)/python perf/report.py --out perf/results/report.json

tables: .venv/core  # of the kept results, docs/learnt.md, its pictures and what README says of the paper, written anew
	for folder in reproduction/results/*-published reproduction/results/*-fair reproduction/results/*-tuned; do \
	  name=$$(basename $$folder); plan=$${name%-*}; \
	  test -f reproduction/results/plans/$$plan.toml && plan=reproduction/results/plans/$$plan.toml; \
	  $(BIN)/python -m tempograd_paper table $$plan --protocol $${name##*-} --results $$folder > $$folder/new.md \
	  && mv $$folder/new.md $$folder/table.md || exit 1; \
	done
	$(BIN)/python -m tempograd_paper answers --results reproduction/results --docs docs

# data, models and records of make missing: one folder, so that tables share their models
RUNS ?= runs/paper
MISSING := table4-released@published table5-physionet2012@tuned table5-physionet2012@published \
  table3-all-1000@tuned table4-all@tuned table1-physionet2012@published table1-physionet2012@tuned \
  table6-physionet2012@published table6-physionet2012@tuned table2-physionet2012@published table2-physionet2012@tuned \
  table8-physionet2012@published table8-physionet2012@tuned cpp-physionet2012@published cpp-physionet2012@tuned \
  efficiency-physionet2012@published efficiency-physionet2012@tuned table3-1000@published table4@published \
  table3-seed@published table4-seed@published
own = $(if $(wildcard reproduction/results/plans/$(1).toml),reproduction/results/plans/$(1).toml,$(1))

missing: $(MISSING:%=missing-%)  # what no results are kept of, most telling first, for a GPU; stop it, and it goes on; CELLS=13 at a time
missing-%: .venv/core
	$(BIN)/python -m tempograd_paper run $(call own,$(word 1,$(subst @, ,$*))) --protocol $(word 2,$(subst @, ,$*)) --out $(RUNS) \
	  --workers $(or $(CELLS),1) $(if $(wildcard reproduction/results/$(subst @,-,$*)),--kept reproduction/results/$(subst @,-,$*))

keep: $(MISSING:%=keep-%)  # what make missing left so far, joined with reproduction/results; then make tables
keep-%: .venv/core
	rm -rf $(RUNS)-kept
	$(BIN)/python -m tempograd_paper table $(call own,$(word 1,$(subst @, ,$*))) --protocol $(word 2,$(subst @, ,$*)) \
	  --results $(wildcard reproduction/results/$(subst @,-,$*)) $(RUNS) --archive $(RUNS)-kept --out $(RUNS)-kept.md --force
	mkdir -p reproduction/results/$(subst @,-,$*) && mv $(RUNS)-kept/* reproduction/results/$(subst @,-,$*)/

clean:
	rm -rf .venv .venv-lowest .venv-models demo dist docs/_build docs/_kept docs/_pictures docs/gallery docs/reference/generated

.venv/core: pyproject.toml reproduction/pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) --upgrade pip
	$(PIP) --editable '.[all]' --editable reproduction
	touch $@

CI_GROUPS := test lint docs release
.venv/ci: pyproject.toml reproduction/pyproject.toml constraints.txt  # all that .ci/run needs but a browser, at once
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) --upgrade pip
	$(PIP) --editable '.[all]' --editable reproduction $(CI_GROUPS:%=--group %)
	touch .venv/core $(CI_GROUPS:%=.venv/%) $@

.venv/test: .venv/core
	$(PIP) --group test
	touch $@

.venv/browser: .venv/test
	$(PIP) --group browser
	@command -v npm >/dev/null || { echo "npm is not installed: apt-get install npm"; exit 1; }
	npm install --loglevel=error --no-save --no-audit --no-fund --ignore-scripts --prefix .venv/axe $(AXE)
	touch $@

.venv/others: .venv/test
	$(PIP) --group others
	touch $@

.venv-models/%/installed: pyproject.toml constraints.txt  # their own versions of all but torch
	test -x .venv-models/$*/$(SCRIPTS)/python || $(PYTHON) -m venv .venv-models/$*
	grep '^torch==' constraints.txt > .venv-models/$*/torch.txt
	.venv-models/$*/$(SCRIPTS)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	.venv-models/$*/$(SCRIPTS)/python -m pip install --quiet --disable-pip-version-check \
	  --constraint .venv-models/$*/torch.txt --editable . --group models-$*
	touch $@

.venv/peers: .venv/test
	$(PIP) --group peers
	touch $@

.venv/docs: .venv/core
	$(PIP) --group docs
	touch $@

.venv/release: pyproject.toml constraints.txt  # needs nothing of the library
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) --upgrade pip
	$(PIP) --group release
	touch $@

.venv/lint: .venv/test
	$(PIP) --group lint
	touch $@

.venv-lowest/test: pyproject.toml reproduction/pyproject.toml constraints-lowest.txt
	test -x $(LOWEST) || $(PYTHON) -m venv .venv-lowest
	$(LOWEST) -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(LOWEST) -m pip install --quiet --disable-pip-version-check --constraint constraints-lowest.txt \
	  --editable '.[all]' --editable reproduction --group test
	touch $@
