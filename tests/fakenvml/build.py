"""Builds the stand-in for NVIDIA's driver library, so that the real NVML bindings can be tested without a GPU.

Put the folder of the library into LD_LIBRARY_PATH and the path of a state file into GSCHED_FAKE_NVML, both before the
process starts. What the state file may say is told at the top of fakenvml.c.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

SOURCE = Path(__file__).with_name("fakenvml.c")
NAME = "libnvidia-ml.so.1"
CUDA_SOURCE = Path(__file__).with_name("fakecuda.c")
CUDA_NAME = "libcuda.so.1"


class NoCompiler(Exception):
    """There is no C compiler here; the text says so and is meant as the reason of a skipped test."""


def build(folder: Path, without: Iterable[str] = ()) -> Path:
    """Compile the library into `folder` and return its path. Functions named in `without` are not exported, as by an
    older driver. Raises NoCompiler, or CalledProcessError when the source does not compile.
    """
    hidden = "".join(f" {name};" for name in without)
    return _compiled(folder, SOURCE, NAME, f"nvml*; local:{hidden}")


def build_cuda(folder: Path) -> Path:
    """The same for the stand-in of libcuda.so.1, which knows what tests/gpu/programs/cuda_program.py calls."""
    return _compiled(folder, CUDA_SOURCE, CUDA_NAME, "cu*; local:")


def _compiled(folder: Path, source: Path, name: str, exports: str) -> Path:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise NoCompiler("no C compiler (gcc or cc) to build the fake libraries of NVIDIA's driver with")
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / name
    script = folder / f"{source.stem}.map"
    script.write_text(f"{{ global: {exports} *; }};\n")
    subprocess.run(
        [
            *(compiler, "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-fvisibility=hidden"),
            *(f"-Wl,-soname,{name}", f"-Wl,--version-script={script}", "-o", str(target), str(source)),
        ],
        check=True,
    )
    return target
