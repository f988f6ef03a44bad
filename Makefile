# Needs only python3 (3.11 or newer, with pip or venv) and make. The first run of a target downloads what uv.lock
# names into .venv; later runs touch no network. Another interpreter: make PYTHON=python3.13 test

PYTHON ?= python3
# Processes, each with one BLAS thread: two for computing, and three for tests, a part of which waits for other processes.
WORKERS ?=
# Sizes and numbers of runs of `make reproduce`: quick, standard or paper.
PRESET ?= standard
# Where `make reproduce` writes.
OUT ?= reports

UV_VERSION := 0.13.8
UV := .make/uv-$(UV_VERSION)/bin/uv
BIN := .venv/bin

export UV_PROJECT_ENVIRONMENT := .venv
export UV_PYTHON_DOWNLOADS := never
unexport VIRTUAL_ENV PYTHONPATH PYTHONHOME
# Containers often set this; every process that the tests start would compile all that it imports once more.
unexport PYTHONDONTWRITEBYTECODE

one_blas_thread := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1

# Stamps lie inside the environment they speak of, so that deleting it deletes them. --inexact keeps what another target
# has installed; a larger set stamps the smaller ones that it holds ($(2)).
define sync
$(UV) sync --frozen --inexact --no-default-groups $(1) --python "$$($(PYTHON) -c 'import sys; print(sys.executable)')"
@touch $(2) $@
endef

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup reproduce test test-statistical check lint package bench hunt docs clean

help: ## list the targets
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: .venv/.stamp-dev ## install everything a developer needs (the other targets install what they need themselves)

reproduce: .venv/.stamp-core ## draw theory over simulation of the real network; ends with the path of the report
	@$(BIN)/gradstep reproduce --preset $(PRESET) --out $(OUT)

# The same examples in every run (tests/conftest.py), so that it does not depend on luck. Each process begins with its part
# of the files in their order (worksteal), so that what tests of a file share, and the server and browser, are made once.
test: .venv/.stamp-test ## run the tests (a few minutes)
	@$(one_blas_thread) $(BIN)/python -m pytest -n $(or $(WORKERS),3) --dist worksteal -m "not statistical" $(ARGS)

test-statistical: .venv/.stamp-test ## run the slow comparisons, the rest of large grids, and properties on random examples
	@$(one_blas_thread) $(BIN)/python -m pytest -n $(or $(WORKERS),2) --dist worksteal -m "statistical or hypothesis" \
	  --hypothesis-profile random $(ARGS)

check: lint docs ## lock file, style, types, docstrings, documentation

lint: .venv/.stamp-dev ## the same without the documentation
	$(UV) lock --check --offline
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy --strict
	@$(BIN)/python -W ignore -m numpydoc lint $$(find src -name '*.py')

# The wheel is built from the source distribution, and installed beside the versions of uv.lock into an environment that
# knows nothing of this folder.
package: | $(UV) ## build the distributions, install them into a clean environment and run them there
	@rm -rf dist .make/package
	@$(UV) build --quiet --out-dir dist
	@$(UV) export --quiet --frozen --no-default-groups --no-emit-project --no-hashes --output-file .make/constraints.txt
	@$(UV) venv --quiet --python "$$($(PYTHON) -c 'import sys; print(sys.executable)')" .make/package
	@$(UV) pip install --quiet --python .make/package --constraints .make/constraints.txt dist/*.whl
	@cd .make/package && bin/gradstep --version && \
	  bin/python -I -c "import gradstep as gs; print(gs.predict(gs.Problem.cui2024(alpha=2, alpha0=1, eta_tilde=1, lam=0.1)))"

bench: .venv/.stamp-bench ## print the timed comparisons
	@$(BIN)/python -m benchmarks.run $(ARGS)

hunt: .venv/.stamp-core ## search for settings at which theory and network differ (hours; goes on where it ended)
	@$(one_blas_thread) $(BIN)/python -m benchmarks.hunt .gradstep/hunt benchmarks/results/hunt.json --workers $(or $(WORKERS),2) $(ARGS)

docs: .venv/.stamp-dev ## build the documentation into docs/_build/html
	@rm -rf docs/api/generated docs/gallery
	@$(one_blas_thread) $(BIN)/python -m sphinx --fail-on-warning --keep-going --fresh-env --quiet -b html docs docs/_build/html

clean: ## remove the environment, the built documentation and the caches (reports stay)
	rm -rf .venv .make docs/_build docs/api/generated docs/gallery docs/sg_execution_times.rst dist \
	  .pytest_cache .mypy_cache .ruff_cache examples/.ruff_cache .hypothesis
	find src tests benchmarks docs -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/.stamp-core: pyproject.toml uv.lock | $(UV)
	$(call sync,,)

.venv/.stamp-test: pyproject.toml uv.lock | $(UV)
	$(call sync,--group test,.venv/.stamp-core)

.venv/.stamp-dev: pyproject.toml uv.lock | $(UV)
	$(call sync,--group dev,.venv/.stamp-core .venv/.stamp-test)

.venv/.stamp-bench: pyproject.toml uv.lock | $(UV)
	$(call sync,--group bench,.venv/.stamp-core .venv/.stamp-test)

# uv itself comes through pip, into a folder of its own; a machine without pip may still have venv, which brings one.
$(UV):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "gradstep needs Python 3.11 or newer, and '$(PYTHON)' is $$($(PYTHON) --version 2>&1);" \
	       "name another one, for instance: make PYTHON=python3.13 $(MAKECMDGOALS)" >&2; exit 1; }
	@if $(PYTHON) -m pip --version >/dev/null 2>&1; then \
	  python=$(PYTHON); \
	elif $(PYTHON) -m venv .make/venv >/dev/null 2>&1; then \
	  python=.make/venv/bin/python; \
	else \
	  echo "'$(PYTHON)' has neither pip nor venv; install one of them (on Debian: python3-pip or python3-venv)" >&2; \
	  exit 1; \
	fi; \
	PIP_ROOT_USER_ACTION=ignore PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_USER=0 PIP_REQUIRE_VIRTUALENV=0 \
	  $$python -m pip install --quiet --upgrade --target .make/uv-$(UV_VERSION) uv==$(UV_VERSION)
