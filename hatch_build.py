"""Build hook: generates the gRPC stubs from proto/ and the command scripts, for wheels and editable installs alike.

It must never need anything that is not in [build-system].requires, and never write outside gsched/wire/v1 and build/.
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


def generate_stubs(root: Path) -> None:
    """Write *_pb2.py, *_pb2.pyi and *_pb2_grpc.py beside gsched/wire/v1/__init__.py."""
    import grpc_tools
    from grpc_tools import protoc

    protos = sorted(str(path) for path in (root / "proto").rglob("*.proto"))
    # The mypy plugins are scripts beside the interpreter of the build environment.
    scripts = Path(sys.executable).parent
    search = os.pathsep.join(
        [
            str(scripts),
            *(str(Path(p).parent.parent.parent.parent / "bin") for p in sys.path if p),
            os.environ.get("PATH", ""),
        ]
    )
    os.environ["PATH"] = search
    well_known = str(Path(grpc_tools.__file__).parent / "_proto")
    arguments = [
        "protoc",
        f"-I{root / 'proto'}",
        f"-I{well_known}",
        f"--python_out={root}",
        f"--grpc_python_out={root}",
        f"--mypy_out=quiet:{root}",
        f"--mypy_grpc_out=quiet:{root}",
    ]
    if protoc.main([*arguments, *protos]) != 0:
        raise RuntimeError("protoc could not generate the stubs from proto/")


def write_scripts(root: Path) -> dict[str, str]:
    """One launcher script for each row of gsched/command_table.py, and gsched-pam, which root runs and has one of its
    own; returns hatch's shared_scripts mapping.
    """
    launcher = (root / "bin" / "launcher").read_text(encoding="utf8")
    folder = root / "build" / "scripts"
    folder.mkdir(parents=True, exist_ok=True)
    mapping = {}
    for name, *_ in runpy.run_path(str(root / "gsched" / "command_table.py"))["COMMANDS"]:
        path = folder / name
        path.write_text(launcher, encoding="utf8")
        path.chmod(0o755)
        mapping[str(path)] = name
    mapping[str(root / "bin" / "gsched-pam")] = "gsched-pam"
    return mapping


class Hook(BuildHookInterface[Any]):
    """Called by hatchling before it packs a wheel, editable or not."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        generate_stubs(root)
        build_data["shared_scripts"].update(write_scripts(root))
        build_data["pure_python"] = True
