# Each target does all its own set-up, on a fresh Debian 12 with Python 3.11, Rust and (for missing packages) root.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ENGINE_SOURCES := $(shell find engine/src engine/Cargo.toml engine/Cargo.lock -type f 2>/dev/null)

.PHONY: setup packages demo test test-on-servers test-elsewhere lint bench clean
.DEFAULT_GOAL := setup

setup: $(BIN)/costof
	@$(BIN)/python -m costof.lab.mongod_binary

# Distribution packages first, since OpenSSL's headers are needed to build the engine; each time, for their updates.
packages:
	@scripts/system-packages

$(BIN)/costof: pyproject.toml constraints.txt scripts/system-packages $(ENGINE_SOURCES) | packages
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $(BIN)/costof

demo: setup
	$(BIN)/costof run mongodb-tls --profile quick

test: setup
	@scripts/system-packages tests
	@echo "tests on servers, and beside them the engine's and all others: each lot is printed when it is done"
	@$(MAKE) --no-print-directory --jobs 2 --output-sync test-on-servers test-elsewhere
	@echo "tests that measure, one after the other"
	@$(BIN)/python -m pytest -m quiet

# They wait for servers a third of their time. The slowest files stand first.
test-on-servers:
	@$(BIN)/python -m pytest -m 'servers and not quiet' -n 2 --dist loadfile --no-loadscope-reorder

# In the time that those wait.
test-elsewhere:
	+@cd engine && nice cargo test --quiet --no-run && cargo test --quiet
	@nice $(BIN)/python -m pytest -m 'not servers'

lint: setup
	@cd engine && cargo fmt --check && cargo clippy --quiet --all-targets -- -D warnings
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

bench: setup
	@scripts/system-packages bench
	@$(BIN)/python benches/run.py

clean:
	rm -rf $(VENV) engine/target
