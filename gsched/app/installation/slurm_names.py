"""`gsched names slurm DIR`: commands under Slurm's names, for programs and people that know only those.

It must never replace a file that it did not write.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

from gsched.app.installation.name_scripts import COMMAND, HEAD, folder_of_cluster, put_files, script_values
from gsched.cli.registry import SLURM_COMMANDS
from gsched.config.configuration import load

PROFILE = "profile.slurm"
_PROFILE = """\
# Slurm's names for sh and bash, {mark}:  . {path}
case ":$PATH:" in
  *":"{folder}":"*) ;;
  *) PATH={folder}:$PATH ;;
esac
export PATH
"""


def write_slurm_names(
    folder: str, conf: str | None, environment: Mapping[str, str], say: Callable[[str], None]
) -> None:
    """Write the commands and profile.slurm into `folder`, for the cluster of `conf` (default: the environment's).

    Raises BadRequest where there is no cluster, ConfigError when its files are wrong, Conflict when a file of another
    origin is in the way (nothing is written then), OSError when the folder cannot be written.
    """
    target = Path(os.path.abspath(folder))
    envdir = folder_of_cluster(conf, environment)
    cluster = load(envdir).required().cluster
    values = script_values(envdir, "slurm")
    texts = {name: (HEAD + COMMAND).format(name=name, **values) for name in sorted(SLURM_COMMANDS)}
    path = shlex.quote(str(target / PROFILE))
    texts[PROFILE] = _PROFILE.format(mark=values["mark"], path=path, folder=shlex.quote(str(target)))
    put_files(target, texts, values["mark"], plain=PROFILE)
    say(f"{len(texts) - 1} commands and {PROFILE} are in {target}, for the cluster {cluster} of {envdir}")
    say(f"use them: . {path}")
