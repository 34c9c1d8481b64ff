"""How programs that say `import drmaa` get this package: in their own code, or by a folder in PYTHONPATH.

Nothing is installed under the name drmaa: who has not asked for it finds whatever else goes by that name.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from types import ModuleType

HOME = "gsched.contrib.drmaa"
NAME = "drmaa"
SUBMODULES = ("const", "errors", "session", "version")
"""Those that programs import by themselves."""
IMPORT_PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "import_path")
"""A folder for PYTHONPATH in which there is nothing but a module drmaa."""


def install() -> ModuleType:
    """From now on `import drmaa` in this process means this package, which is returned.

    Raises ImportError where another drmaa has been imported: some of the program would use that one.
    """
    package = import_module(HOME)
    there = sys.modules.get(NAME)
    if there not in (None, package) and not str(getattr(there, "__file__", "")).startswith(IMPORT_PATH):
        raise ImportError(f"another drmaa has been imported already, from {getattr(there, '__file__', 'somewhere')}")
    sys.modules[NAME] = package
    for each in SUBMODULES:
        sys.modules[f"{NAME}.{each}"] = import_module(f"{HOME}.{each}")
    return package
