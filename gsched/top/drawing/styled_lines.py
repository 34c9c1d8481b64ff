"""Lines of styled pieces: what the screens show and the plain listing prints. A piece's text is never markup."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from gsched.cli.render.text.text_columns import cell, head, printable


class Piece(NamedTuple):
    """`style`: words such as `bold red`; empty: as it comes."""

    text: str
    style: str = ""


Line = tuple[Piece, ...]


def line(*pieces: Piece | str) -> Line:
    """A line of these pieces."""
    return tuple(piece if isinstance(piece, Piece) else Piece(piece) for piece in pieces)


def text_of(pieces: Line) -> str:
    """The line without its styles."""
    return "".join(piece.text for piece in pieces).rstrip()


def column(text: str, columns: int) -> str:
    """A user's text, harmless, cut or filled to that width."""
    return cell(printable(text), columns)


def folded(text: str, columns: int, most: int) -> list[str]:
    """A user's text, harmless, over at most so many lines."""
    rest = printable(text)
    lines: list[str] = []
    while rest and len(lines) < most:
        part = head(rest, columns) or rest[0]
        lines.append(part)
        rest = rest[len(part) :]
    if rest and lines:
        lines[-1] = head(lines[-1], columns - 1) + "…"
    return lines


def lines_of(texts: Iterable[str], style: str = "") -> list[Line]:
    """A line for each."""
    return [line(Piece(text, style)) for text in texts]
