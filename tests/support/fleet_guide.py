"""The commands of docs/fleet.md and other pages, as they list them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

GUIDE_FOLDER = Path(__file__).resolve().parents[2] / "docs"
GUIDE = (GUIDE_FOLDER / "fleet.md").read_text("utf-8")
ON_EVERY_HOST = "On every host:"
ON_FIRST = "On `h1`, as root. `--sim-gpus` simulates GPUs; leave it out if there are real ones:"
FROM_EMPTY_HOSTS = "From three empty hosts"
"""A section of docs/high-availability.md."""
AS_USER = "On any of them, as any user, after the next login:"


def commands_below(line: str, page: str = GUIDE) -> list[str]:
    """The indented lines of the page below this one, up to the next that is not indented."""
    found = re.search(rf"^{re.escape(line)}$\n\n((?: {{4}}.*\n|\n)+)", page, re.MULTILINE)
    assert found is not None, f"no commands below '{line}'"
    return [command.strip() for command in found[1].splitlines() if command.strip()]


@dataclass(frozen=True)
class Block:
    """Commands of a page, and the paragraph above that says where they are to be run."""

    where: str
    script: str


def blocks_of(page: str, heading: str) -> list[Block]:
    """The fenced blocks of this section of a page in docs/, in order."""
    text = (GUIDE_FOLDER / page).read_text("utf-8")
    found = re.search(rf"^##+ {re.escape(heading)}$\n(.*?)(?=^##+ |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found is not None, f"{page} has no section '{heading}'"
    parts = re.findall(r"((?:^(?!```)[^\n]+\n)+)\n```\n(.*?)^```$", found[1], re.MULTILINE | re.DOTALL)
    return [Block(" ".join(where.split()), script) for where, script in parts]
