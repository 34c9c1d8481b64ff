"""`gsched names slurm DIR` and `gsched names pbs DIR`: commands under these systems' names, for programs and people
that know only those.

It must never replace a file that it did not write.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gsched.app.installation.name_scripts import HEAD, folder_of_cluster, put_files, script_values, start_of
from gsched.cli.registry import PBS_COMMANDS, SLURM_COMMANDS
from gsched.config.configuration import load

_PROFILE = """\
# {title}'s names for sh and bash, {mark}:  . {path}
case ":$PATH:" in
  *":"{folder}":"*) ;;
  *) PATH={folder}:$PATH ;;
esac
export PATH
"""


_PBSDSH = r"""
usage="usage: pbsdsh [-c COPIES | -n NODE | -h HOST | -u] [-s] [-v] [-o] [--] COMMAND [ARGUMENT ...]"
refuse() { echo "pbsdsh: $1" >&2; exit 1; }
if [[ ${1-} == --help ]]; then
  echo "$usage"
  echo "start the command by glaunch on the host of each line of PBS_NODEFILE"
  exit
fi
[[ -n ${PBS_NODEFILE-} && -r $PBS_NODEFILE ]] || refuse "works only inside a job: PBS_NODEFILE names no file"
mapfile -t hosts < "$PBS_NODEFILE"
total=${#hosts[@]}
while getopts :c:n:h:E:usvo option; do
  case $option in
    c) [[ $OPTARG =~ ^[1-9][0-9]{0,5}$ ]] || refuse "-c '$OPTARG' is no number"
       copies=()
       for ((place = 0; place < OPTARG; place++)); do copies+=("${hosts[place % total]}"); done
       hosts=("${copies[@]}") ;;
    n) [[ $OPTARG =~ ^[0-9]{1,6}$ && $OPTARG -lt $total ]] || refuse "-n '$OPTARG': nodes are 0 to $((total - 1))"
       hosts=("${hosts[OPTARG]}") ;;
    h) [[ " ${hosts[*]} " == *" $OPTARG "* ]] || refuse "-h '$OPTARG' is no host of the job"
       hosts=("$OPTARG") ;;
    u) mapfile -t hosts < <(printf '%s\n' "${hosts[@]}" | awk '!seen[$0]++') ;;
    s|v|o) ;;
    E) refuse "-E is not supported: say it in the command" ;;
    *) refuse "invalid option -- '$OPTARG'; $usage" ;;
  esac
done
shift $((OPTIND - 1))
[[ $# -gt 0 ]] || refuse "no command; $usage"
set -- -no-shell -z "${hosts[*]}" "$@"
"""


@dataclass(frozen=True, slots=True)
class NamedSystem:
    """A batch system whose names are written."""

    word: str
    """Behind `gsched names`."""
    title: str
    commands: Iterable[str]

    @property
    def profile(self) -> str:
        return f"profile.{self.word}"


SLURM_NAMES = NamedSystem("slurm", "Slurm", SLURM_COMMANDS)
PBS_NAMES = NamedSystem("pbs", "PBS", PBS_COMMANDS)


def write_system_names(
    system: NamedSystem, folder: str, conf: str | None, environment: Mapping[str, str], say: Callable[[str], None]
) -> None:
    """Write the commands and the profile into `folder`, for the cluster of `conf` (default: the environment's).

    Raises BadRequest where there is no cluster, ConfigError when its files are wrong, Conflict when a file of another
    origin is in the way (nothing is written then), OSError when the folder cannot be written.
    """
    target = Path(os.path.abspath(folder))
    envdir = folder_of_cluster(conf, environment)
    cluster = load(envdir).required().cluster
    values = script_values(envdir, system.word)
    texts = {name: HEAD.format(name=name, **values) + start_of(name, values) for name in sorted(system.commands)}
    if system is PBS_NAMES:
        head, start = HEAD.format(name="pbsdsh", **values), start_of("glaunch", values)
        texts["pbsdsh"] = head + _PBSDSH + start
    path = shlex.quote(str(target / system.profile))
    texts[system.profile] = _PROFILE.format(
        title=system.title, mark=values["mark"], path=path, folder=shlex.quote(str(target))
    )
    put_files(target, texts, values["mark"], plain=system.profile)
    say(f"{len(texts) - 1} commands and {system.profile} are in {target}, for the cluster {cluster} of {envdir}")
    say(f"use them: . {path}")
