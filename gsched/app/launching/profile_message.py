"""Which files profilers have left, told in a message of the job: `gjobs -l` and the job's page show it below a heading.

Its box says what it is; nobody reads the words.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

from gsched.app.glaunch import LaunchRefused
from gsched.app.launch_streams import say
from gsched.app.launching.host_answers import files_of
from gsched.dialect.launching.launch_plan import LaunchJob
from gsched.model.views.message_boxes import PROFILES_BOX

MOST_TEXT = 2000
"""Characters of the message."""
POST_S = 60.0


def tell_profiles(name: str, job: LaunchJob) -> None:
    """Post it; where that fails the launch has not failed."""
    hosts = [host.name for host in job.hosts]
    try:
        text = profiles_text(job.profile_folder, hosts, files_of(name, hosts, job.profile_folder))
        if text:
            program = os.path.join(os.path.dirname(sys.executable), "gpost")
            words = [program, "-i", str(PROFILES_BOX), "-d", text, job.number]
            subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False, timeout=POST_S)
    except (OSError, LaunchRefused, subprocess.TimeoutExpired) as problem:
        say(f"{name}: the files in {job.profile_folder} are not listed: {problem}")


def profiles_text(folder: str, hosts: Sequence[str], files: Sequence[Sequence[str]]) -> str:
    """`profiles in /w/prof.7: rank-0.svg rank-1.svg`; with the host of each where hosts do not share the folder."""
    everywhere = [name for name in files[0] if all(name in other for other in files)] if files else []
    parts = [name for name in everywhere if name]
    for host, own in zip(hosts, files, strict=True):
        parts += [f"{host}:{name}" for name in own if name not in everywhere]
    text = f"profiles in {folder}: {' '.join(parts)}" if parts else ""
    return text if len(text) <= MOST_TEXT else text[: MOST_TEXT - 4] + " ..."
