"""A process for one question: does PAM take this password for this user, and may the user log in? It is root's.

PAM's modules are loaded into this process alone and end with it, whatever they do; the keeper sets it a limit. The
question comes on standard input (service, user, password, a NUL byte behind each) and is never an argument. Exit code
0: yes; 1: no; anything else: nobody knows. One line on standard error says what PAM said.
"""

from __future__ import annotations

import sys

import pamela  # type: ignore[import-untyped]

MOST_BYTES = 16 * 1024


def main() -> int:
    """Answer the question."""
    parts = sys.stdin.buffer.read(MOST_BYTES).decode("utf8").split("\0")
    if len(parts) != 4 or parts[3]:
        return 2
    service, user, password, _ = parts
    try:
        # No session and no credentials: nothing is run for the user here.
        pamela.authenticate(user, password, service=service, resetcred=0, check=True)
    except pamela.PAMError as error:
        print(f"{error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
