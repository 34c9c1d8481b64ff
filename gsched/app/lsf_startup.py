"""lsfstartup, lsfshutdown and lsf_daemons: all daemons of the cluster on this machine, under the names that LSF's have.

They do what `gsched up`, `down` and `status` do, for the cluster of the environment. Jobs go on while daemons are away.
Source of words and questions: lsfstartup(8), lsfshutdown(8), lsf_daemons(8) of LSF 10.1.
"""

from __future__ import annotations

import os
import sys

import click

from gsched.app import private
from gsched.app.daemon_control import cluster_of
from gsched.app.entry import FAILURE
from gsched.app.lsf_words import asked
from gsched.app.private import Home
from gsched.base.envdir import conf_dir
from gsched.base.errors import LSF_FAILURE

OPTION_FORCE = click.option("-f", "force", is_flag=True, help="Does not ask.")


def _home() -> Home:
    return cluster_of(os.path.abspath(conf_dir(os.environ)))


def _start() -> None:
    home = _home()
    home.run_dir()  # a cluster is never made here
    private.up(home, sim_gpus=None, hosts=(), gpu_resources=True, say=click.echo)


def _stop() -> None:
    private.down(_home(), kill=False, say=click.echo)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@OPTION_FORCE
def lsfstartup(force: bool) -> None:
    """Start the daemons of the cluster that do not run on this machine."""
    if not asked("Do you really want to start up the daemons of the cluster on this host?", force=force):
        sys.exit(LSF_FAILURE)
    _start()


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@OPTION_FORCE
def lsfshutdown(force: bool) -> None:
    """Stop the daemons of the cluster on this machine; jobs go on."""
    if not asked("Do you really want to shut down the daemons of the cluster on this host?", force=force):
        sys.exit(LSF_FAILURE)
    _stop()


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("word", type=click.Choice(("start", "stop", "restart", "status")))
def lsf_daemons(word: str) -> None:
    """Start, stop or restart the daemons of the cluster on this machine, or show which run."""
    if word in ("stop", "restart"):
        _stop()
    if word in ("start", "restart"):
        _start()
    if word == "status" and not private.status(_home(), say=click.echo):
        sys.exit(FAILURE)
