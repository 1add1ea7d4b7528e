# `make demo` shows what dbcheck does; `make test` runs the tests. Both set up
# what they need first (.ci/setup says what).

BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest
# As many workers as cores, as far as memory allows 2 GiB for each; no fewer than 3, as
# the tests of cuts wait more than they compute, and no more than 8, which share one disk.
WORKERS ?= $(shell awk -v cores=$$(nproc) '/MemAvailable/ {n = int($$2 / 2097152); \
	n = n < cores ? n : cores; print (n < 3 ? 3 : n > 8 ? 8 : n)}' /proc/meminfo)
PARALLEL = -n $(WORKERS) --dist loadfile --no-loadscope-reorder

# The tests start Python a thousand times: let it keep what it has compiled.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup extension pages mysql servers demo test wide check types style unit unit-stored unit-others fix reference man dist oldest docs docs-links constraints soak fuzz bench clean

setup: .venv/.ready

.venv/.ready: .ci/setup setup.cfg setup.py pyproject.toml dbcheck/load/_rounds.c $(wildcard constraints/*.txt)
	.ci/setup

# A browser, other shells and Sphinx, for the tests of the pages that dbcheck report makes.
pages: .venv/.pages

.venv/.pages: .venv/.ready
	.ci/setup pages

# Builds the part in C again, after a change; make setup builds it first.
extension: setup
	$(BIN)/python setup.py --quiet build_ext --inplace --force

demo: setup
	$(BIN)/dbcheck demo

# MySQL is in no release of Debian, and MyRocks, Galera and Patroni come with services; the
# tests that need one of them are skipped without it.
mysql: setup
	$(BIN)/dbcheck lab fetch mysql
	$(BIN)/dbcheck lab fetch myrocks
	$(BIN)/dbcheck lab fetch galera
	$(BIN)/dbcheck lab fetch patroni

servers: setup
	-$(BIN)/dbcheck lab fetch mysql
	-$(BIN)/dbcheck lab fetch myrocks
	-$(BIN)/dbcheck lab fetch galera
	-$(BIN)/dbcheck lab fetch patroni

test: servers
	$(PYTEST) $(PARALLEL)

# The same on more servers, filesystems and signals.
wide: pages servers
	$(PYTEST) $(PARALLEL) -m "wide and not soak"

# Cuts until Ctrl-C, or as SOAK says, e.g. SOAK="--minutes 60"; a summary goes into
# docs/findings.md, and the next call goes on. First the tests that take minutes.
soak: servers
	$(PYTEST) -m soak --timeout 3600
	$(BIN)/python -m tools.soak $(SOAK)

# The documents that are made from the code; a test of each compares them.
reference: setup
	$(BIN)/python -m tools.docs.rules
	$(BIN)/python -m tools.docs.switches
	$(BIN)/python -m tools.docs.schema
	$(BIN)/python -m tools.docs.reference

# A manual page for each command, in man/man1: man -M man dbcheck
man: setup
	$(BIN)/python -m tools.docs.manpages

# What is released, in dist, with the manual pages: the source, a wheel with the part in C
# for this system, and one without it for all systems.
dist: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct)
dist: man
	$(BIN)/python -m build
	DBCHECK_WITHOUT_C=1 $(BIN)/python -m pip wheel --quiet --disable-pip-version-check \
		--no-deps -w dist $$(ls -t dist/dbcheck-*.tar.gz | head -n 1)

# The documentation as a site, in build/docs/html; a link that leads nowhere ends it.
docs: .venv/.docs
	$(BIN)/sphinx-build -c tools/docs --fail-on-warning --keep-going --nitpicky --quiet -b html docs build/docs/html
	@echo build/docs/html/index.html

# Asks for each link to another site whether it is still there.
docs-links: .venv/.docs
	$(BIN)/sphinx-build -c tools/docs --quiet -b linkcheck docs build/docs/links

.venv/.docs: .venv/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r constraints/docs.txt
	touch $@

# The newest versions of all that dbcheck needs, and their hashes; then run the tests.
constraints:
	.ci/constraints

# The unit tests with the oldest versions that setup.cfg allows.
oldest:
	.ci/oldest

check: setup
	$(MAKE) --no-print-directory --output-sync=target -j 4 types unit-stored unit-others style

types:
	$(BIN)/mypy

style:
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/lint-imports --no-cache

# Two halves of equal time.  Two plain runs take a fifth less than one that xdist shares
# out, which collects all tests twice.  They write and sync files by the thousand, so in
# memory if there is some; each in its own folder, as pytest would clean up the other's.
UNIT = folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && \
	$(PYTEST) --basetemp "$$folder/tests" -q -p no:xdist -p no:logging -o tmp_path_retention_policy=none
STORED = $(addprefix tests/unit/,campaign evidence explore report rows runner runs)

unit:
	$(MAKE) --no-print-directory --output-sync=target -j 2 unit-stored unit-others

unit-stored unit-others: export TMPDIR := $(or $(wildcard /dev/shm),/tmp)
unit-stored:
	$(UNIT) $(STORED)

unit-others:
	$(UNIT) tests/unit $(addprefix --ignore=,$(STORED))

fix: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

fuzz: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r constraints/fuzz.txt
	$(PYTEST) tests/property --hypothesis-profile fuzz --timeout 3600
	$(BIN)/python -m tools.fuzz

bench: setup
	$(BIN)/python -m tools.bench $(BENCH)

clean:
	rm -rf .venv build dist man *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
