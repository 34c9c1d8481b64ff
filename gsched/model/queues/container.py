"""Containers of jobs: the image, what is mounted into it, which programs run it, and what the site allows.

Texts in, values out; nothing is looked up. Forms of images are those that both Apptainer and Podman know, and files of
Apptainer (.sif). Which program runs a job's container is the agent's to say (gsched.agent.attempts.job_container).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from gsched.base.errors import BadRequest

APPTAINER, PODMAN = "apptainer", "podman"
RUNTIMES = (APPTAINER, PODMAN)
"""Programs that run containers without a daemon, the one that is taken first where a host has both."""
RUNTIMES_RESOURCE = "container_runtimes"
"""Resource of hosts: the names of those that it has, with a blank between; empty: none."""
MOST_MOUNTS = 64
LONGEST_IMAGE = 1024
ARCHIVES = ("oci-archive:", "docker-archive:")
_REGISTRY = "docker://"
FORMS = f"docker://NAME, a .sif file, {', '.join(ARCHIVES)} or a folder"
"""What an image may be, for a person."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:-]*(?:@(?:sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}))?", re.ASCII)
"""With the digest that may stand behind it. Source: the OCI's image-spec, descriptor.md, "Registered Algorithms"."""
_NO_PATH = frozenset(":,\n")
"""What the programs take the paths of mounts apart at."""
_OF_IMAGE = frozenset(
    ["/", "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr", "/var"]
)
_KINDS = ("docker", PODMAN, APPTAINER, "singularity")
_SITE = re.compile(
    rf"(?P<kind>{'|'.join(_KINDS)})\s*\[\s*image\((?P<image>[^()\[\]]+)\)\s*(?:options\((?P<options>[^()\[\]]*)\)\s*)?\]"
)
"""CONTAINER. Source: lsb.queues(5), lsb.applications(5)."""
_MOUNTING = ("-v", "--volume", "-B", "--bind")
_OF_KERNEL = ("/dev/", "/proc/", "/sys/")


class ContainerMount(NamedTuple):
    """A file or folder of the host that the container sees."""

    source: str
    target: str
    is_read_only: bool = False

    def __str__(self) -> str:
        return f"{self.source}:{self.target}" + (":ro" if self.is_read_only else "")


def read_image(text: str, cwd: str = "/") -> str:
    """The image as jobs have it: paths are absolute. Raises BadRequest."""
    word = text.strip(" ")
    fault = _fault(word)
    if fault:
        raise BadRequest(f"{word[:60]!r} is no image: {fault}")
    if word.startswith(_REGISTRY):
        if _NAME.fullmatch(word.removeprefix(_REGISTRY)) is None:
            raise BadRequest(f"'{word[:60]}' is not of the form {_REGISTRY}[REGISTRY/]NAME[:TAG][@sha256:DIGEST]")
        return word
    kind = next((each for each in ARCHIVES if word.startswith(each)), "")
    path = word.removeprefix(kind)
    if "://" in path or (not kind and ":" in path):
        raise BadRequest(f"'{word[:60]}' is none of {FORMS}")
    if not path:
        raise BadRequest(f"'{word[:60]}' names no file")
    return kind + posixpath.normpath(posixpath.join(cwd, path))


def _fault(word: str) -> str:
    """What keeps the word from being an image of any kind; empty: nothing."""
    if not word:
        return f"{FORMS} is wanted"
    if len(word) > LONGEST_IMAGE:
        return f"it is longer than {LONGEST_IMAGE} characters"
    if "\n" in word or "\r" in word:
        return "it has a line break"
    if " " in word:
        return "it has a blank"
    return "" if word.isprintable() else "it has characters that cannot be shown"


def runtimes_of(image: str) -> tuple[str, ...]:
    """The programs that can run it."""
    return (APPTAINER,) if image.endswith(".sif") else RUNTIMES


def is_folder(image: str) -> bool:
    """Whether it is a folder that holds the root of a file system."""
    return image.startswith("/") and not image.endswith(".sif")


def read_mount(text: str, cwd: str = "/") -> ContainerMount:
    """`SOURCE[:TARGET][:ro]`. Raises BadRequest."""
    parts = text.strip().split(":")
    is_read_only = len(parts) > 1 and parts[-1] in ("ro", "rw")
    how = parts.pop() if is_read_only else "rw"
    if not 1 <= len(parts) <= 2 or not all(parts):
        raise BadRequest(f"'{text[:80]}' is not of the form SOURCE[:TARGET][:ro]")
    source = posixpath.normpath(posixpath.join(cwd, parts[0]))
    target = parts[1] if len(parts) == 2 else source
    if not target.startswith("/"):
        raise BadRequest(f"'{text[:80]}': {target[:60]} is no absolute path in the container")
    target = posixpath.normpath(target)
    check_path(source)
    check_path(target)
    return ContainerMount(source, target, how == "ro")


def read_site_container(text: str) -> tuple[str, tuple[ContainerMount, ...]]:
    """Image and mounts of CONTAINER, of lsb.queues and lsb.applications. Raises BadRequest.

    Of LSF's `docker[image(NAME) options(...)]` what says image and mounts: options are -v, --volume, -B, --bind, and
    `--rm`, which is so anyway.
    """
    found = _SITE.fullmatch(text.strip())
    if found is None:
        raise BadRequest(f"'{text[:80]}' is not of the form {'|'.join(_KINDS)}[image(NAME) options(-v SOURCE:TARGET)]")
    name = found["image"].strip()
    is_of_registry = found["kind"] in ("docker", PODMAN) and "://" not in name and not name.startswith(("/", *ARCHIVES))
    image = read_image(_REGISTRY + name if is_of_registry else name)
    return image, tuple(_site_mounts((found["options"] or "").split()))


def _site_mounts(words: Sequence[str]) -> Iterator[ContainerMount]:
    rest = iter(words)
    for word in rest:
        option, equals, value = word.partition("=")
        if word == "--rm":
            continue
        if option not in _MOUNTING:
            raise BadRequest(f"options({word[:40]} ...) is not supported: {', '.join(_MOUNTING)} and --rm are")
        yield read_mount(value if equals else next(rest, ""))


def check_path(path: str) -> None:
    """Raise BadRequest for a path that cannot be mounted, or would hide the image's own system."""
    if not _NO_PATH.isdisjoint(path):
        raise BadRequest(f"{path[:80]} cannot be mounted into a container: its name has a colon, comma or line break")
    if path in _OF_IMAGE or path.startswith(_OF_KERNEL):
        raise BadRequest(f"{path[:80]} cannot be mounted into a container: it is part of the image's own system")


def check_mounts(mounts: Iterable[ContainerMount], allowed: Sequence[ContainerMount]) -> None:
    """Raise BadRequest for the first that the site's table does not allow: its source must lie below an entry, and an
    entry with `:ro` lets it be read alone. `..` and links are not followed here: the job's user has no more rights
    inside than outside.
    """
    for mount in mounts:
        entries = [each for each in allowed if is_below(mount.source, each.source)]
        if not entries:
            table = " ".join(_entry(each) for each in allowed) or "none"
            raise BadRequest(f"{mount.source} may not be mounted: the site allows {table} (GSCHED_CONTAINER_MOUNTS)")
        closest = max(entries, key=lambda each: len(each.source))
        if closest.is_read_only and not mount.is_read_only:
            raise BadRequest(f"{mount.source} may be mounted with :ro alone (GSCHED_CONTAINER_MOUNTS)")


def check_image(image: str, allowed: Sequence[str] | None) -> None:
    """Raise BadRequest for an image that matches none of the site's patterns; None: there are none."""
    if allowed is not None and not any(fnmatchcase(image, each) for each in allowed):
        patterns = " ".join(allowed)
        raise BadRequest(f"{image} is none of the images that the site allows: {patterns} (GSCHED_CONTAINER_IMAGES)")


def _entry(mount: ContainerMount) -> str:
    return mount.source + (":ro" if mount.is_read_only else "")


def is_below(path: str, folder: str) -> bool:
    """Whether the path is the folder or lies in it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")
