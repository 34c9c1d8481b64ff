"""Bytes sealed by a passphrase: encrypted, and nothing of them can be changed unnoticed.

The key is made of the passphrase by scrypt (RFC 7914), the rest is AES-256-GCM (NIST SP 800-38D), both of the package
`cryptography`. A passphrase is never stored, shown, or taken from a command line.
"""

from __future__ import annotations

import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from gsched.base.errors import BadRequest

SHORTEST = 8
"""Characters of a passphrase."""
_MARK = b"gsched sealed 1\n"
_SALT, _NONCE, _KEY = 16, 12, 32
_COST, _BLOCK, _LANES = 1 << 15, 8, 1
"""32 MiB and a tenth of a second for each guess. Those of another version would get another mark."""


def seal(data: bytes, passphrase: str) -> bytes:
    """Raises BadRequest for a passphrase that is too short."""
    if len(passphrase) < SHORTEST:
        raise BadRequest(f"a passphrase has at least {SHORTEST} characters")
    salt, nonce = os.urandom(_SALT), os.urandom(_NONCE)
    return b"".join((_MARK, salt, nonce, AESGCM(_key(passphrase, salt)).encrypt(nonce, data, _MARK)))


def unseal(sealed: bytes, passphrase: str, name: str) -> bytes:
    """What was sealed. Raises BadRequest; `name` is where it comes from."""
    if not sealed.startswith(_MARK):
        raise BadRequest(f"{name}: what is sealed in it is of another version of gsched")
    salt_at = len(_MARK)
    nonce_at = salt_at + _SALT
    data_at = nonce_at + _NONCE
    try:
        cipher = AESGCM(_key(passphrase, sealed[salt_at:nonce_at]))
        return cipher.decrypt(sealed[nonce_at:data_at], sealed[data_at:], _MARK)
    except (InvalidTag, ValueError):  # the latter: it is too short
        raise BadRequest(f"{name}: the passphrase is another one, or the file is damaged") from None


def _key(passphrase: str, salt: bytes) -> bytes:
    return Scrypt(salt=salt, length=_KEY, n=_COST, r=_BLOCK, p=_LANES).derive(passphrase.encode())
