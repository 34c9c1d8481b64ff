"""`gsched names`, `man` and `completion`: what people put beside the commands. Imports every command."""

from __future__ import annotations

import os

import click

from gsched.app.commands.command_options import OPTION_CONF
from gsched.app.installation.lsf_names import write_lsf_names
from gsched.app.installation.system_names import PBS_NAMES, SLURM_NAMES, write_system_names
from gsched.app.manual.entries import entries
from gsched.app.manual.roff import write_pages
from gsched.app.manual.shells import completion as script_of


@click.group()
def names() -> None:
    """Put the commands into a folder under the names of another batch system."""


@names.command("lsf")
@click.argument("folder", metavar="DIR")
@OPTION_CONF
def names_lsf(folder: str, conf: str | None) -> None:
    """Write bsub, bjobs, bkill ... and profile.lsf into DIR; they work from anywhere."""
    write_lsf_names(folder, conf, os.environ, click.echo)


@names.command("slurm")
@click.argument("folder", metavar="DIR")
@OPTION_CONF
def names_slurm(folder: str, conf: str | None) -> None:
    """Write Slurm's commands (sbatch, srun, squeue ...) and profile.slurm into DIR; they work from anywhere."""
    write_system_names(SLURM_NAMES, folder, conf, os.environ, click.echo)


@names.command("pbs")
@click.argument("folder", metavar="DIR")
@OPTION_CONF
def names_pbs(folder: str, conf: str | None) -> None:
    """Write qsub, qstat, qdel ... and profile.pbs into DIR; they work from anywhere."""
    write_system_names(PBS_NAMES, folder, conf, os.environ, click.echo)


@click.command()
@click.argument("folder", metavar="DIR")
def man(folder: str) -> None:
    """Write the manual pages of all commands into DIR/man1."""
    write_pages(folder, entries(), click.echo)


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print what completes the commands in a shell: options, names and job numbers.

    bash, in ~/.bashrc: source <(gsched completion bash). zsh, after compinit: source <(gsched completion zsh). fish:
    gsched completion fish > ~/.config/fish/conf.d/gsched.fish.
    """
    click.echo(script_of(shell, entries()), nl=False)
