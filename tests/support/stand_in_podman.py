"""A stand-in for Podman: it takes the words of `podman run`, `ps` and `rm`, and starts what is to run as its child.

Nothing is shut off: the child has the host's files. What it has is the environment that it is told of, its working
directory, and a process in between that passes signals on, as Podman does. Each call is a line of JSON in the file
STAND_IN_PODMAN_LOG, if that is set.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

_WITHOUT_VALUE = {"--rm", "--interactive", "--tty"}
PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP)


def install(folder: Path) -> Path:
    """Put it there as `podman`; its process has that name, too."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "podman"
    interpreter = folder / "interpreter"  # its own path may have blanks, which no first line of a script can
    interpreter.symlink_to(sys.executable)
    program.write_text(f"#!{interpreter}\n{Path(__file__).read_text()}")
    program.chmod(0o755)
    return program


def options_of(words: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Option -> its values; the image and what is to run in it behind."""
    found: dict[str, list[str]] = {}
    rest = iter(words)
    left: list[str] = []
    for word in rest:
        if not word.startswith("-"):
            left = [word, *rest]
            break
        name, equals, value = word.partition("=")
        found.setdefault(name, []).append("" if word in _WITHOUT_VALUE else value if equals else next(rest))
    rootfs = found.get("--rootfs")
    return found, ([rootfs[0], *left] if rootfs else left)


def run(words: list[str]) -> int:
    options, (_, *program) = options_of(words)
    told = {name: os.environ[name] for name in options.get("--env", []) if name in os.environ}
    child = subprocess.Popen(
        program, env={**told, "PATH": "/usr/bin:/bin", "container": "podman"}, cwd=options["--workdir"][0]
    )
    for number in PASSED_ON:
        signal.signal(number, lambda signum, _: child.send_signal(signum))
    code = child.wait()
    return 128 - code if code < 0 else code


def main() -> int:
    words = [word for word in sys.argv[1:] if not word.startswith("--cgroup-manager")]
    if log := os.environ.get("STAND_IN_PODMAN_LOG"):
        with open(log, "a") as file:
            file.write(json.dumps(sys.argv[1:]) + "\n")
    return run(words[1:]) if words[0] == "run" else 0


if __name__ == "__main__":
    sys.exit(main())
