"""The words that run a program in a container, for Apptainer and for Podman, and those that remove what is left.

Whoever executes them is the job's user already, in the job's control group; both programs start what is inside as their
own descendants, in the same group, with the same user, limits, CPUs and network. So signals, limits, figures and the
fence hold inside as outside. No value of a variable ever stands among the words: everybody can read them (ps).

Standard library only: the fork server's interpreter loads it. Source: podman-run(1) of 4.3, apptainer-exec of 1.4.
"""

from __future__ import annotations

import os
import re

from gsched.run.supervisor.steps import quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gsched.run.containers.container import Container

LABEL = "gsched.attempt"
"""Of Podman's containers: the name of the job's one."""
PODMAN = "podman"
REMOVAL_S = 30
"""How long Podman may take to look for what is left, and to remove it: the job's GPUs are not free before."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_OF_HOST = frozenset(
    (
        *("PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "SHELL", "PWD", "OLDPWD", "SHLVL", "HOSTNAME", "_"),
        *("TMPDIR", "TEMP", "TMP", "DBUS_SESSION_BUS_ADDRESS", "CONTAINER_HOST", "container"),
        *("VIRTUAL_ENV", "PYTHONHOME", "NVIDIA_VISIBLE_DEVICES"),
    )
)
"""Variables that say where things lie outside: the image has its own, or none."""
_NO_OTHER_GPUS = "NVIDIA_VISIBLE_DEVICES=void"
"""An image may say `all`, and a hook of NVIDIA's toolkit then puts all of the host's in, beside those of the job."""
_OF_HOST_TOO = ("XDG_", "SSH_", "CONDA_", "BASH_FUNC_")
_ADDED = ("LS_JOBPID", "LSB_JOBRES_PID")
"""What a job's process is told as the last thing."""
_OF_ITS_OWN = ("/tmp", "/var/tmp")
"""Folders of Apptainer's containers that are empty, and gone when the job ends."""
_ARCHIVES = ("oci-archive:", "docker-archive:")
_BEFORE = ("--cgroup-manager=cgroupfs",)
"""Nobody asks systemd for a group: the job's is there."""


def image_path(image: str) -> str:
    """The file or folder that the image is; empty where it comes from a registry."""
    if image.startswith("/"):
        return image
    return image.partition(":")[2] if image.startswith(_ARCHIVES) else ""


def look_for(image: str) -> None:
    """Raises OSError where the image is a file or folder that is not there. Behind the first colon of an archive's path
    may stand which of its images is meant.
    """
    path = image_path(image)
    if path:
        os.stat(path if image.startswith("/") or os.path.exists(path) else path.partition(":")[0])


def contained(
    container: Container,
    words: Iterable[str],
    environment: Mapping[str, str],
    cwd: str,
    *,
    has_terminal: bool = False,
    task: str = "",
) -> list[str]:
    """The words that run these in the container. `has_terminal`: on a pseudo-terminal, which is theirs inside, too."""
    if container.runtime == PODMAN:
        return _podman(container, words, environment, cwd, has_terminal=has_terminal, task=task)
    return _apptainer(container, words, cwd)


def _podman(
    container: Container,
    words: Iterable[str],
    environment: Mapping[str, str],
    cwd: str,
    *,
    has_terminal: bool,
    task: str,
) -> list[str]:
    found = [container.program, *_BEFORE, "run", "--rm"]
    # Without a terminal the job's own streams are those of the inside: nobody stands in between.
    found += ["--interactive", "--tty", "--log-driver=none"] if has_terminal else ["--log-driver=passthrough"]
    found += ["--name", f"{container.name}-{task}" if task else container.name]
    found += ["--label", f"{LABEL}={container.name}"]
    # Its processes stay where this one is: in the job's group, whose rules say which devices can be opened.
    found += ["--cgroups=disabled", "--network=host", "--init", *_shared_memory()]
    # The host's name and boot id are what NCCL knows a host by: with names of their own its containers were several
    # hosts. Nobody inside can set it: that takes the host's root, which the job's user is not.
    found += ["--uts=host"]
    found += ["--security-opt=label=disable", *_as_user(container)]
    for limit in container.limits:
        found += ["--ulimit", limit]
    found += ["--env", _NO_OTHER_GPUS]
    for name in told(environment, container):
        found += ["--env", name]
    for source, target, is_read_only in container.mounts:
        found += ["--volume", f"{source}:{target}" + (":ro" if is_read_only else "")]
    for device in container.devices:
        found += ["--device", device]
    found += ["--workdir", cwd, "--entrypoint", ""]
    image = container.image
    found += ["--rootfs", f"{image}:O"] if image.startswith("/") else [of_registry(image)]
    return [*found, *words]


def of_registry(image: str) -> str:
    """The image as Podman finds it in its storage too: with `docker://` it asks the registry each time, and a name
    without a registry is Docker's.
    """
    name = image.removeprefix("docker://")
    if name == image:
        return image
    first, slash, _ = name.partition("/")
    if slash and (first == "localhost" or "." in first or ":" in first):
        return name
    return f"docker.io/{name}" if slash else f"docker.io/library/{name}"


def _shared_memory() -> list[str]:
    """The host's. Podman wants the message queues, too, which not each host has mounted."""
    return ["--ipc=host"] if os.path.isdir("/dev/mqueue") else ["--volume=/dev/shm:/dev/shm"]


def _as_user(container: Container) -> list[str]:
    """Inside as outside. Podman of a user maps that one to itself; of root there is nothing to map."""
    uid, gid = container.user
    return [f"--user={uid}:{gid}", *(["--userns=keep-id"] if uid else [])]


def _apptainer(container: Container, words: Iterable[str], cwd: str) -> list[str]:
    """It hands on the environment by itself, all but paths of programs and libraries. What `--contain` leaves out is
    said one by one, for it would put a shared memory of its own there, and let nobody mount the host's.
    """
    found = [container.program, "exec", "--pid", "--no-mount", "home,cwd,tmp"]
    found += [word for folder in _OF_ITS_OWN for word in ("--scratch", folder)]
    found += ["--nv"] if container.has_gpus else []
    for source, target, is_read_only in container.mounts:
        found += ["--bind", f"{source}:{target}" + (":ro" if is_read_only else "")]
    return [*found, "--pwd", cwd, container.image, *words]


def told(environment: Mapping[str, str], container: Container) -> list[str]:
    """Names of the variables that are handed on to the inside."""
    home = environment.get("HOME", "")
    is_home_there = any(home == target or home.startswith(f"{target}/") for _, target, _ in container.mounts)
    names = dict.fromkeys((*environment, *_ADDED, *(["SLURM_TASK_PID"] if "SLURM_PROCID" in environment else [])))
    return [
        name
        for name in names
        if name not in _OF_HOST
        and not name.startswith(_OF_HOST_TOO)
        and _NAME.fullmatch(name) is not None
        and (name != "HOME" or is_home_there)
    ]


def removal(container: Container) -> str:
    """The line for a shell that removes what Podman keeps of the attempt's containers on this host, running or not;
    empty where nothing is kept.
    """
    if container.runtime != PODMAN:
        return ""
    podman = quoted(["timeout", "--kill-after=5", str(REMOVAL_S), container.program, *_BEFORE])
    listed = f"{podman} ps --all --quiet --filter {quoted([f'label={LABEL}={container.name}'])}"
    return f"{listed} | xargs --no-run-if-empty {podman} rm --force --ignore --time 0 --"
