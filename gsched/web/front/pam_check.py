"""A process for one question: does PAM take this password for this user, and may the user log in? It is root's.

PAM's modules are loaded into this process alone and end with it, whatever they do; the keeper sets it a limit. The
question comes on standard input (service, user, the browser's address, password, a NUL byte behind each; without an
address or a password nothing stands there) and is never an argument. Without a password PAM is asked for the account
alone. The exit code answers; one line on standard error says what PAM said.
"""

from __future__ import annotations

import sys

import pamela  # type: ignore[import-untyped]

from gsched.web.front.keeper_messages import PAM_IS_UNSURE, PAM_SAYS_NO, PAM_SAYS_YES

MOST_BYTES = 16 * 1024
TERMINAL = "gsched-web"
"""What PAM's rules can name this service by, as sshd is `ssh`."""
_NO_ANSWER = frozenset({1, 2, 3, 4, 5, 9, 25, 26, 28})
"""PAM's errors that say nothing of the user: modules that cannot be loaded, a directory that is away (_pam_types.h)."""


def main() -> int:
    """Answer the question."""
    parts = sys.stdin.buffer.read(MOST_BYTES).decode("utf8").split("\0")
    if len(parts) != 5 or parts[4]:
        return PAM_IS_UNSURE
    try:
        ask(*parts[:4])
    except pamela.PAMError as error:
        print(f"{error}", file=sys.stderr)
        return PAM_IS_UNSURE if error.errno in _NO_ANSWER else PAM_SAYS_NO
    return PAM_SAYS_YES


def ask(service: str, user: str, address: str, password: str) -> None:
    """Ask PAM. No session and no credentials: nothing is run for the user here. Raises PAMError for a no."""
    answers = pamela.new_simple_password_conv((password,) if password else (), "utf8")
    handle = pamela.pam_start(service, user, conv_func=answers)
    handle.set_item(pamela.PAM_TTY, TERMINAL)
    if address:
        handle.set_item(pamela.PAM_RHOST, address)
    said = pamela.PAM_AUTHENTICATE(handle, 0) if password else pamela.PAM_SUCCESS
    if said == pamela.PAM_SUCCESS:
        said = pamela.PAM_ACCT_MGMT(handle, 0)
    pamela.pam_end(handle, said)


if __name__ == "__main__":
    sys.exit(main())
