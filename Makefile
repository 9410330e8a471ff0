# Each target does its own setup on a fresh Debian 12 with Python 3.11, Rust and, for missing packages, root.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ENGINE_SOURCES := $(shell find engine/src engine/crates engine/Cargo.toml engine/Cargo.lock -type f 2>/dev/null)

.PHONY: setup packages tls-libraries demo test test-python test-engine test-all test-all-python test-all-engine test-all-alone lint \
	bench truth man docs docs-reports wheels release-check check-wheels clean
.DEFAULT_GOAL := setup

setup: $(BIN)/costof
	@$(BIN)/python -m costof.programs.mongod

# Distribution packages come first, because the engine needs OpenSSL's headers. Runs each time to get updates.
packages:
	@scripts/system-packages

$(BIN)/costof: pyproject.toml constraints.txt scripts/system-packages $(ENGINE_SOURCES) | packages
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $(BIN)/costof

# Builds an engine for each other TLS library, for `--set tls_library=…`, by a Cargo feature of that name. Takes minutes,
# because the libraries are built too. Like the system's library, they use CA certificates and settings in /etc/ssl.
tls-libraries: setup
	@scripts/system-packages tls-libraries
	@for library in openssl-3.5 aws-lc; do \
		(cd engine && OPENSSL_CONFIG_DIR=/etc/ssl cargo build --release --target-dir target/tls-libraries --features $$library) && \
		install engine/target/tls-libraries/release/costof-engine $(BIN)/costof-engine-$$library || exit 1; done

demo: setup
	$(BIN)/costof run mongodb-tls --profile quick

test: setup
	@scripts/system-packages tests
	@$(MAKE) --no-print-directory --jobs 2 test-python test-engine

# All tests: those of `make test` and the slow ones, for a release, or after changes in their area.
test-all: setup
	@scripts/system-packages tests
	@$(MAKE) --no-print-directory --jobs 2 test-all-alone

# Eight workers, because tests with servers wait half of the time; tests of a file share their servers. Container images often set
# PYTHONDONTWRITEBYTECODE, with which each of a thousand processes would compile all sources. Small matrices are slower on
# several threads.
PYTEST = $(BIN)/python -m pytest -n 8 --dist loadfile --no-loadscope-reorder
test-python test-all-python: export PYTHONDONTWRITEBYTECODE =
test-python test-all-python: export OPENBLAS_NUM_THREADS = 1
test-python:
	@$(PYTEST) -m 'not slow'
test-all-python:
	@$(PYTEST) -m 'not alone'

# After all other tests, because these compare measured figures with known ones.
test-all-alone: test-all-python test-all-engine
	@$(BIN)/python -m pytest -m alone

test-engine test-all-engine:
	+@cd engine && cargo test --quiet --workspace

lint: setup
	@cd engine && cargo fmt --all --check && cargo clippy --quiet --workspace --all-targets -- -D warnings
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports --no-cache
	@$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-actions action.yml
	@$(BIN)/python -m pytest tests/unit/test_house.py

bench: setup
	@scripts/system-packages bench
	@$(BIN)/python -m benches.run

# The campaign of docs/truth-plan.md: about ten hours on an idle machine; continues after an interruption. QUICK=1: ten
# minutes, in runs/truth-quick. AGAIN=1: measures nothing, and analyses the kept results with the current code. PAGE=1:
# measures nothing, and writes the page from the existing data.
truth: setup
	@scripts/system-packages bench
	@$(BIN)/python -m truth $(if $(QUICK),--quick) $(if $(AGAIN),--again) $(if $(PAGE),--page)

# Manual pages for the wheel.
man: setup
	@$(BIN)/python -m manual man packaging/data/share/man/man1

# The documentation as a site, build/site/index.html: docs/, the reference and the reports. Fails on broken links: Zensical checks
# pages and headings, linkchecker all other files.
docs: $(BIN)/zensical
	@$(BIN)/python -m manual pages
	@$(BIN)/zensical build --config-file site.yml --clean --strict
	@$(BIN)/python -m manual formulas
	@$(BIN)/linkchecker --no-status --no-warnings build/site/index.html

$(BIN)/zensical: pyproject.toml constraints.txt | setup
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,docs]'
	@touch $@

# Runs the studies' quick profiles (a quarter of an hour on an idle machine), keeps their ledgers in docs/runs, and updates the
# pages that quote them. STUDY=redis-tls: only that study; STUDY=postgres-upgrade: a run of another question (manual/kept.py). PUBLISHED=1: instead runs the five studies of docs/published.md in the
# published size, which takes hours and continues after an interruption.
docs-reports: setup
	@$(BIN)/python -m manual measure $(STUDY) $(if $(PUBLISHED),--profile published)

# Builds a release into dist/: wheels for x86-64 and aarch64 with a static OpenSSL, and the sources. Needs rustup and perl.
wheels: man
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt ziglang
	@scripts/wheels $(CURDIR)/$(BIN)

# Checks that tag, changelog and dist/ agree, and that the wheels have the right requirements (docs/releasing.md).
release-check:
	@$(BIN)/python scripts/release_check.py

# Installs dist/ in chroots of Debian and Ubuntu without a compiler, and runs costof there. Half an hour; needs root.
check-wheels:
	@scripts/system-packages wheels
	@scripts/check-wheels $${TMPDIR:-/tmp}/costof-chroots

clean:
	rm -rf $(VENV) engine/target build
