"""What the machine of the checks has, as nvidia-smi tells it, and what it lacks; asked anew each time.

Nothing here, and no check, changes a setting of a GPU: no compute mode, MIG, persistence, accounting, clocks, reset.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

DEFAULT, EXCLUSIVE = "Default", "Exclusive_Process"
ASKING_S = 60.0
HAS_TORCH = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"


def nvidia_smi(*words: str) -> str:
    """What it prints; empty where it is not there, or fails."""
    try:
        done = subprocess.run(("nvidia-smi", *words), capture_output=True, text=True, timeout=ASKING_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def _rows(query: str, *fields: str) -> list[dict[str, str]]:
    told = nvidia_smi(f"--query-{query}={','.join(fields)}", "--format=csv,noheader,nounits")
    lines = (line.split(",") for line in told.splitlines() if line.strip())
    return [dict(zip(fields, (word.strip() for word in line), strict=False)) for line in lines]


def gpus(*fields: str) -> list[dict[str, str]]:
    """A value of each field of `nvidia-smi --help-query-gpu` for each GPU."""
    return _rows("gpu", *fields)


def processes() -> dict[int, int | None]:
    """MiB of each process that computes on a GPU, None where that is unknown; by process id."""
    found = _rows("compute-apps", "pid", "used_memory")
    return {int(row["pid"]): whole(row.get("used_memory", "")) for row in found if row["pid"].isdigit()}


def _details(element: str) -> list[ET.Element]:
    """All elements of this name in what `nvidia-smi -q -x` prints."""
    told = nvidia_smi("-q", "-x")
    return list(ET.fromstring(told).iter(element)) if told else []


def process_types() -> dict[int, str]:
    """C, G, M+C ... of each process that nvidia-smi lists."""
    found = _details("process_info")
    return {int(each.findtext("pid") or 0): each.findtext("type") or "" for each in found}


def minors() -> dict[str, str]:
    """Number of the device file of each GPU by its UUID, where nvidia-smi tells it."""
    found = ((gpu.findtext("uuid"), gpu.findtext("minor_number")) for gpu in _details("gpu"))
    return {uuid: minor for uuid, minor in found if uuid and minor and minor.isdigit()}


def number(text: object) -> float | None:
    """The first number of a text; None where there is none, as in `[N/A]`."""
    found = re.search(r"-?\d+(\.\d+)?", str(text))
    return float(found[0]) if found else None


def whole(text: str) -> int | None:
    return int(text) if text.isdigit() else None


def uuid() -> str:
    """Of the first GPU."""
    return gpus("uuid")[0]["uuid"]


def mode() -> str:
    """The compute mode of all GPUs; empty where they have several."""
    modes = {row["compute_mode"] for row in gpus("compute_mode")}
    return modes.pop() if len(modes) == 1 else ""


def all_gpus() -> str:
    """The -gpu of a job that has every GPU of this machine, and each of them alone, in the mode that they have."""
    count = len(gpus("index"))
    return f"num={count}:" + ("mode=exclusive_process" if mode() == EXCLUSIVE else "j_exclusive=yes")


def why_none() -> str:
    """Why nothing can be checked here; empty when something can."""
    if shutil.which("nvidia-smi") is None:
        return "there is no nvidia-smi here"
    return "" if gpus("uuid") else "nvidia-smi shows no GPU"


def why_not_looked_at() -> str:
    """Why not even readings can be compared; empty when they can."""
    is_split = any(row["mig.mode.current"] == "Enabled" for row in gpus("mig.mode.current"))
    return "MIG is enabled on a GPU" if is_split else ""


def why_not_usable() -> str:
    """Why jobs cannot use the GPUs now; empty when they can."""
    if mode() not in (DEFAULT, EXCLUSIVE):
        return "the GPUs are not all in compute mode Default, or all in Exclusive_Process"
    used = processes()
    return f"process {min(used)} uses a GPU" if used else ""


@functools.cache
def torch_python(chosen: str) -> str:
    """A Python that has PyTorch: the chosen one, else this one or python3; empty when none has."""
    for program in [chosen] if chosen else [sys.executable, shutil.which("python3") or ""]:
        if program and subprocess.run([program, "-c", HAS_TORCH], capture_output=True, check=False).returncode == 0:
            return program
    return ""


def driver_folder() -> str:
    """Where libcuda.so.1 is, as this process's loader finds it; empty when it does not."""
    code = "import ctypes; ctypes.CDLL('libcuda.so.1'); print(open('/proc/self/maps').read())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    found = re.search(r"(/\S+)/libcuda\.so", done.stdout)
    return found[1] if found else ""


def is_alive(pid: int) -> bool:
    """Whether the process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def described() -> str:
    """One line for the table's heading: model and driver."""
    found = gpus("name", "driver_version")
    names = ", ".join(dict.fromkeys(row["name"] for row in found))
    count = f"{len(found)} x " if len(found) > 1 else ""
    stand_in = "stand-in for the driver library: " if os.environ.get("GSCHED_FAKE_NVML") else ""
    return f"{stand_in}{count}{names}, driver {found[0]['driver_version']}" if found else "no GPU"
