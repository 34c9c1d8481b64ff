#!/usr/bin/env python3
"""Draw docs/terminal.svg, the picture of README.md: real commands on a private cluster with simulated GPUs.

    .venv/bin/python docs/terminal_picture.py > docs/terminal.svg

Everything happens in a temporary folder, which is removed at the end. The names of this machine's user and host become
`ann` and `gpu01`.
"""

from __future__ import annotations

import getpass
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from html import escape
from pathlib import Path

COMMANDS = (
    'gsub -R "rusage[ngpus_excl_p=3]" python3 train.py',
    'gsub -R "rusage[ngpus_excl_p=2]" python3 train.py',
    "gjobs",
    "gjobs -p 2 | sed -n 3p",
    "gpeek 1",
    "ghosts -l | grep -m1 -A2 ngpus_excl_p",
)
TRAIN = """\
import os, time
print("CUDA_VISIBLE_DEVICES =", os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
for epoch in (1, 2):
    print("epoch", epoch, flush=True)
time.sleep(600)
"""
WIDTH, LINE, LEFT, TOP, COLUMN = 1000, 19, 18, 52, 8.43
FONTS = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
COLOURS = (
    (r"^\$ .*", "#7ee787"),
    (r"\bRUN\b", "#79c0ff"),
    (r"\bPEND\b", "#e3b341"),
)


def transcript() -> list[str]:
    """Run the commands; their lines as a terminal shows them."""
    folder = Path(tempfile.mkdtemp(prefix="gsched-"))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GSCHED_", "LSF_", "LSB_"))}
    env = {**kept, "GSCHED_ENVDIR": str(folder / "conf"), "TZ": "UTC", "LC_ALL": "C.UTF-8"}
    env["PATH"] = f"{Path(sys.executable).parent}:{env['PATH']}"
    (folder / "train.py").write_text(TRAIN)

    def run(command: str) -> str:
        return subprocess.run(
            ["bash", "-c", command], cwd=folder, env=env, text=True, stdout=subprocess.PIPE, check=True
        ).stdout

    lines = []
    try:
        run(f"gsched up --dir {folder} --sim-gpus 4:exclusive_process --hosts gpu01")
        for command in COMMANDS:
            lines += [f"$ {command}", *run(command).splitlines()]
            if command.startswith("gsub"):
                run("until gpeek 1 2>/dev/null | grep -q 'epoch 2'; do sleep 0.1; done")
                time.sleep(1)  # the job that does not fit gets its reason in the next cycle
    finally:
        run(f"gsched down --kill --dir {folder}")
        shutil.rmtree(folder)
    return [named(line.rstrip()) for line in lines]


def named(line: str) -> str:
    """The line with the names that the documents use; columns stay where they are."""
    for here, name in ((getpass.getuser(), "ann"), (socket.gethostname().partition(".")[0], "gpu01")):
        wider = max(len(here), len(name))
        line = re.sub(rf"\b{re.escape(here)}\b {{0,{wider - len(here)}}}", name.ljust(wider), line)
    return line


def drawn(line: str, number: int) -> str:
    """One line of the terminal, its words of interest in colours."""
    text = escape(line, quote=False)
    for pattern, colour in COLOURS:
        text = re.sub(pattern, lambda found, fill=colour: f'<tspan fill="{fill}">{found[0]}</tspan>', text)
    return f'<text x="{LEFT}" y="{TOP + number * LINE}" xml:space="preserve">{text}</text>'


def picture(lines: list[str]) -> str:
    height = TOP + len(lines) * LINE + 6
    width = max(WIDTH, round(2 * LEFT + COLUMN * max(map(len, lines))))
    dots = "".join(
        f'<circle cx="{22 + 20 * n}" cy="19" r="6" fill="{c}"/>'
        for n, c in enumerate(("#ff5f57", "#febc2e", "#28c840"))
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'font-family="{FONTS}" font-size="14" fill="#e6edf3">',
            f'<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>',
            dots,
            *(drawn(line, number) for number, line in enumerate(lines)),
            "</svg>",
        ]
    )


if __name__ == "__main__":
    print(picture(transcript()))
