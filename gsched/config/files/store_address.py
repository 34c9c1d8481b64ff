"""GSCHED_STORE of lsf.conf: the database in which the master keeps jobs and history, where it is not a file of its own.

It reads texts alone; the password's file and the database are opened by the master when it starts.
"""

from __future__ import annotations

from gsched.base.errors import BadRequest
from gsched.config.grammar.findings import Findings
from gsched.config.grammar.values import KeyValues, absolute_path
from gsched.model.store_url import is_store_url, parse_store_url


def read_store(settings: KeyValues, findings: Findings) -> str:
    """The address of the store, with the file of its password; empty: a file below LSB_SHAREDIR."""
    text = settings.take("GSCHED_STORE", _address, "")
    password_file = settings.take("GSCHED_STORE_PASSWORD_FILE", absolute_path, "")
    at = settings.place("GSCHED_STORE_PASSWORD_FILE")
    if at is not None and not text:
        findings.error(at, "GSCHED_STORE_PASSWORD_FILE is for the database that GSCHED_STORE names, which is not set")
    return parse_store_url(text, password_file).text if text else ""


def _address(text: str) -> str:
    if not is_store_url(text):
        raise BadRequest("the store is a file below LSB_SHAREDIR, or postgresql://USER@HOST/DATABASE")
    parse_store_url(text)
    return text
