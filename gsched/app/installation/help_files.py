"""Manual pages and completion as files of an installation, for everybody on the host.

It says what belongs where; writing and removing is `gsched.app.installation.install`'s. Imports every command.
"""

from __future__ import annotations

import os

from gsched.app.manual import roff
from gsched.app.manual.entries import entries
from gsched.app.manual.shells import completion

BASH_COMPLETION = "etc/bash_completion.d/gsched"
FISH_COMPLETION = "etc/fish/conf.d/gsched.fish"
COMPLETIONS = {BASH_COMPLETION: "bash", FISH_COMPLETION: "fish"}
"""Where shells look by themselves. zsh has no such place for a script that is read at the start."""


def manual_folder(python: str) -> str:
    """Where man(1) finds the pages by itself, as the commands' folder is in PATH (manpath(1))."""
    prefix = os.path.dirname(os.path.dirname(python))
    return "/usr/local/share/man" if prefix == "/usr" else f"{prefix}/share/man"


def completions() -> dict[str, str]:
    """Path, without its first /, -> script."""
    found = entries()
    return {path: completion(shell, found) for path, shell in COMPLETIONS.items()}


def pages(python: str) -> dict[str, str]:
    """Path of each manual page, without its first /, -> text."""
    folder = manual_folder(python).lstrip("/")
    return {f"{folder}/man1/{name}": text for name, text in roff.pages(entries()).items()}
