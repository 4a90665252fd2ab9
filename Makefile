# Needs make and Python >= 3.11, nothing else. Each target makes `.venv` when it is absent and
# installs into it the package (editable) with the extra the target needs, again whenever
# pyproject.toml changes. `make PYTHON=...` makes `.venv` with another interpreter.

PYTHON ?= $(shell for p in python3.11 python3; do $$p -c '' 2>/dev/null && break; done; echo $$p)
VENV := .venv
BIN := $(VENV)/bin
MINIMUM := .venv-minimum
CLIENTS := .venv-clients

# Two workers, one of which runs all tests of networks (tests/conftest.py).
WORKERS := -n 2 --dist loadgroup

.PHONY: demo test test-portable test-minimum test-clients test-all lint docs docs-quick clean
.NOTPARALLEL:
.DELETE_ON_ERROR:

demo: $(VENV)/.installed-plot
	$(BIN)/python examples/demo.py

# Two workers with one thread each: threads of BLAS and numba would compete for the same cores.
test test-portable test-minimum test-clients test-all: export OPENBLAS_NUM_THREADS = 1
test test-portable test-minimum test-clients test-all: export OMP_NUM_THREADS = 1
test test-portable test-minimum test-clients test-all: export NUMBA_NUM_THREADS = 1

test: $(VENV)/.installed-test
	$(BIN)/python -m pytest $(WORKERS)

# Each processor rounds in its own way, and no result may lean on one: quick tests that would show it,
# with the routines of an old processor, which run on every x86-64. Both OpenBLAS, numpy's and
# scipy's, follow the variable; other BLAS ignore it.
test-portable: export OPENBLAS_CORETYPE = Prescott
test-portable: $(VENV)/.installed-test
	$(BIN)/python -m pytest $(WORKERS) tests/test_gaussian_process.py tests/test_targets.py \
	    tests/test_laplace_at_mode.py tests/test_adapters.py tests/test_linear_model.py tests/test_probit.py \
	    tests/statistical/test_gold.py tests/statistical/test_quadrature.py

# The oldest versions that pyproject.toml allows, and another seed.
test-minimum: $(MINIMUM)/.installed
	$(MINIMUM)/bin/python -m pytest $(WORKERS) --seed 1 tests/test_linear_model.py tests/test_outcomes.py \
	    tests/test_probit.py tests/test_mlp_target.py

# Packages that take any estimator of scikit-learn.
test-clients: $(CLIENTS)/.installed
	$(CLIENTS)/bin/python -m pytest tests/clients

test-all: $(VENV)/.installed-test
	$(BIN)/python -m pytest $(WORKERS) -m "slow or not slow" --cov

lint: $(VENV)/.installed-lint
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

docs: $(VENV)/.installed-doc
	$(BIN)/python -m sphinx -W --keep-going -b html doc doc/_build/html
	$(BIN)/python doc/check_links.py doc/_build/html
	@echo "Open doc/_build/html/index.html"

# Without running the gallery.
docs-quick: $(VENV)/.installed-doc
	$(BIN)/python -m sphinx -q -W --keep-going -D plot_gallery=0 -b html doc doc/_build/quick
	$(BIN)/python doc/check_links.py doc/_build/quick

# Leaves `.venv`, which is slow to make again.
clean:
	rm -rf build dist *.egg-info doc/_build doc/generated .coverage .coverage.* .hypothesis
	rm -rf .mypy_cache .pytest_cache .ruff_cache
	find skstein tests examples doc -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.installed-%: pyproject.toml $(VENV)/pyvenv.cfg
	@echo "Installing skstein[$*] into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@touch $@

$(MINIMUM)/.installed: pyproject.toml $(MINIMUM)/pyvenv.cfg
	@echo "Installing skstein[test] with its oldest dependencies into $(MINIMUM) ..."
	@$(MINIMUM)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[test]' \
	    $$($(MINIMUM)/bin/python -c "import tomllib; project = tomllib.load(open('pyproject.toml', \
	    'rb'))['project']; print(*(d.replace('>=', '==') for d in project['dependencies']))")
	@touch $@

$(CLIENTS)/.installed: pyproject.toml $(CLIENTS)/pyvenv.cfg
	@echo "Installing skstein[test,clients] into $(CLIENTS) ..."
	@$(CLIENTS)/bin/python -m pip install --quiet --disable-pip-version-check \
	    --editable '.[test,clients]'
	@touch $@

$(VENV)/pyvenv.cfg $(MINIMUM)/pyvenv.cfg $(CLIENTS)/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "skstein needs Python 3.11 or newer, and '$(PYTHON)' is not:" \
	         "install one, or name it with make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "Making $(@D) with $(PYTHON) ..."
	@$(PYTHON) -m venv $(@D) || { rm -rf $(@D); \
	    echo "'$(PYTHON) -m venv' failed: on Debian and Ubuntu install python3-venv" >&2; exit 1; }
