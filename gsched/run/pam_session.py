"""A session of a user that nobody takes part in: opened by PAM, as login programs do, so that its limits can be read.

Run by root's agent as a process of its own, which stays root's from beginning to end: no process of the user has a part
in it, which the user could stop, kill or speak for. PAM's modules set the limits of the process that opens the session
(pam_limits(8)); who started this one reads them from outside, for they may leave it neither memory nor descriptors.

On standard output stands a line, OPENED or what PAM says against the session. It is closed again at the end of standard
input; END then says that this process was there until then. Sources: pam_start(3), pam_open_session(3), pam_conv(3).

Standard library only. Run as: python -I -S -E -X utf8 -c PRELUDE PACKAGE_ROOT USER
"""

from __future__ import annotations

import ctypes
import os
import sys

PRELUDE = (
    "import sys; sys.path.append(sys.argv[1]); from gsched.run.pam_session import main; sys.exit(main(sys.argv[2]))"
)
SERVICE = "runuser"
"""What PAM is told to be: root becomes a user without a password."""
SERVICE_FOLDERS = ("/etc/pam.d", "/usr/lib/pam.d")
OPENED, END = "opened", "end"
_LIBRARY = "libpam.so.0"
_SUCCESS, _CONVERSATION_FAILS = 0, 19
_ESTABLISH_CREDENTIALS, _DELETE_CREDENTIALS, _SILENT = 2, 4, 0x8000

_Converse = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


class _Conversation(ctypes.Structure):
    """struct pam_conv."""

    _fields_ = (("converse", _Converse), ("data", ctypes.c_void_p))


def main(user: str) -> int:
    """Open the session, wait, and close it."""
    answers = os.dup(1)
    os.dup2(2, 1)  # what a module prints is no answer
    pam = ctypes.CDLL(_LIBRARY)
    pam.pam_strerror.restype = ctypes.c_char_p
    pam.pam_strerror.argtypes = (ctypes.c_void_p, ctypes.c_int)
    talk = _Conversation(_Converse(lambda *_: _CONVERSATION_FAILS), None)  # nobody answers a question
    handle = ctypes.c_void_p()
    code = pam.pam_start(SERVICE.encode(), os.fsencode(user), ctypes.byref(talk), ctypes.byref(handle))
    if code != _SUCCESS:
        sys.stderr.write(f"pam_start: error {code}\n")
        return 1
    pam.pam_setcred(handle, _ESTABLISH_CREDENTIALS | _SILENT)
    code = pam.pam_open_session(handle, _SILENT)
    end = f"{END}\n".encode()
    said = OPENED if code == _SUCCESS else pam.pam_strerror(handle, code).decode(errors="replace") or f"error {code}"
    os.write(answers, f"{said}\n".encode())
    os.read(0, 1)
    os.write(answers, end)
    if code == _SUCCESS:
        pam.pam_close_session(handle, _SILENT)
    pam.pam_setcred(handle, _DELETE_CREDENTIALS | _SILENT)
    pam.pam_end(handle, code)
    return 0
