"""Build hook: generates the gRPC stubs from proto/ and the commands, for wheels and editable installs alike.

A command is a program, launcher/launcher.c, where there is a C compiler, and the script bin/launcher elsewhere. With a
compiler there is launcher/waiter.c as well, which supervisors become while their jobs run.

It must never need anything that is not in [build-system].requires, and never write outside gsched/wire/v1 and build/.
"""

from __future__ import annotations

import os
import runpy
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
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


def native_programs(root: Path, build: SimpleNamespace) -> tuple[Path, Path] | None:
    """The compiled launcher and waiter; None where all is left to the interpreter: why stands on standard error."""
    if os.environ.get(build.NO_NATIVE) == "1":
        return None
    try:
        folder = root / "build" / "launcher"
        return build.compile_launcher(folder), build.compile_waiter(folder)
    except build.CannotCompile as problem:
        print(f"gsched's commands are started by Python, which takes longer: {problem}", file=sys.stderr)
        return None


def write_scripts(root: Path) -> tuple[dict[str, str], bool]:
    """A file for each row of gsched/command_table.py, and gsched-pam, which root runs and has one of its own.

    Returns hatch's shared_scripts mapping, and whether these files are programs for this kind of machine.
    """
    build = SimpleNamespace(**runpy.run_path(str(root / "launcher" / "build_launcher.py")))
    names = [name for name, *_ in runpy.run_path(str(root / "gsched" / "command_table.py"))["COMMANDS"]]
    native = native_programs(root, build)
    if native:
        names.append(build.ANY_NAME)
    folder = root / "build" / "scripts"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    mapping = {}
    for name in names:
        path = folder / name
        shutil.copyfile(native[0] if native else root / "bin" / "launcher", path)
        path.chmod(0o755)
        mapping[str(path)] = name
    if native:
        path = folder / build.WAITER
        shutil.copyfile(native[1], path)
        path.chmod(0o755)
        mapping[str(path)] = build.WAITER
    mapping[str(root / "bin" / "gsched-pam")] = "gsched-pam"
    return mapping, native is not None


def platform_tag() -> str:
    """Of a wheel with programs for this kind of machine and any Python 3."""
    from packaging.tags import platform_tags  # hatchling needs it, too

    return f"py3-none-{next(tag for tag in platform_tags() if tag.startswith('linux_'))}"


class Hook(BuildHookInterface[Any]):
    """Called by hatchling before it packs a wheel, editable or not."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        generate_stubs(root)
        scripts, is_native = write_scripts(root)
        build_data["shared_scripts"].update(scripts)
        # The package itself is the same everywhere, and lies where packages without programs do.
        build_data["pure_python"] = True
        if is_native:
            build_data["tag"] = platform_tag()
