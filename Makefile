# `make demo` shows what dbcheck does; `make test` runs every test. Both set up
# what they need first (.ci/setup says what).

BIN := .venv/bin

.PHONY: setup mysql demo test check fix soak fuzz bench clean

setup: .venv/.ready

.venv/.ready: .ci/setup setup.cfg pyproject.toml
	.ci/setup

demo: setup
	$(BIN)/dbcheck demo

# MySQL is in no release of Debian; without it the tests that need it are skipped.
mysql: setup
	$(BIN)/python -m tests.mysql

test: setup
	-$(BIN)/python -m tests.mysql
	$(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder

# The long suites, each of which takes minutes.
soak: setup
	-$(BIN)/python -m tests.mysql
	$(BIN)/python -m pytest -m soak --timeout 3600

check: setup
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m pytest -q -n 2 tests/unit tests/property

fix: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

fuzz: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[fuzz]'
	$(BIN)/python -m tests.fuzz

bench: setup
	$(BIN)/python -m tests.bench $(BENCH)

clean:
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
