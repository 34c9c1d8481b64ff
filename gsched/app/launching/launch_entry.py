"""Where the launcher comes to with `glaunch --launch`: it imports next to nothing before it is known that it must."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import cast


def main(argv: list[str]) -> int:
    """Run it and return the exit code."""
    if "site" not in sys.modules:
        import_module("site").main()  # left out at the start, by -S
    # By its name: the launcher imports this module for every glaunch, and must import next to nothing by it.
    run = cast("Callable[[list[str]], int]", import_module("gsched.app.launching.launch_run").run)
    return run(argv)
