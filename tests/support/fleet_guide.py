"""The commands of docs/fleet.md and other pages, as they list them."""

from __future__ import annotations

import re
from pathlib import Path

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "fleet.md").read_text("utf-8")
ON_EVERY_HOST = "On every host:"
ON_FIRST = "On `h1`, as root. `--sim-gpus` simulates GPUs; leave it out if there are real ones:"
AS_USER = "On any of them, as any user, after the next login:"


def commands_below(line: str, page: str = GUIDE) -> list[str]:
    """The indented lines of the page below this one, up to the next that is not indented."""
    found = re.search(rf"^{re.escape(line)}$\n\n((?: {{4}}.*\n|\n)+)", page, re.MULTILINE)
    assert found is not None, f"no commands below '{line}'"
    return [command.strip() for command in found[1].splitlines() if command.strip()]
