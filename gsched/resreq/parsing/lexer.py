"""The tokens of a requirement, and the cursor that the parsers share.

It must never guess: what it does not know is an error.

Every error is a RequirementError with the 0-based position where it was noticed. Texts are bounded in length, so no
input can keep the reader busy.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NoReturn

import msgspec

from gsched.base.errors import BadRequest, RequirementError
from gsched.base.units import parse_mib
from gsched.resreq.ast import Number

BAD_SYNTAX = "Bad resource requirement syntax"
BAD_NAME = "Bad resource name"

LONGEST_NUMBER = 64
"""Characters of one number."""
_SMALLEST, _LARGEST = 1e-9, 1e18

_TOKEN = re.compile(
    r"(?P<blank>[ \t\r\n\f\v]+)"
    r"|(?P<word>[A-Za-z0-9_.]+)"
    r"|(?P<text>'[^']*'|\"[^\"]*\")"
    r"|(?P<sign>&&|\|\||==|!=|<=|>=|[-+*/<>=!()\[\]{}:,@])"
)
_HASH = re.compile(r"(?P<sign>#)")
_AFTER_MODEL = frozenset({":", ",", "]", "||"})
_NUMBER = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)([KMGTPEZ]B?)?", re.IGNORECASE | re.ASCII)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_UNUSABLE = "cannot be used in the resource requirement section"
"""LSF's words for a character that means nothing there; programs look for them."""
_HINTS = {"&": f"'&' {_UNUSABLE}: and is written &&", "|": f"'|' {_UNUSABLE}: or is written ||"}
_HINTS |= dict.fromkeys("'\"", "a quote that is not closed")


class Token(msgspec.Struct, frozen=True):
    """`kind` is "word", "text" (quotes taken off), "sign" or "end"."""

    kind: str
    text: str
    start: int
    end: int

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else f"'{self.text}'"


def one_line(source: str) -> str:
    """`source` with everything that is not printable replaced, each by one character, so that positions stay true."""
    return "".join(char if char.isprintable() else " " if char.isspace() else "?" for char in source)


def refuse(detail: str, source: str, position: int, kind: str = BAD_SYNTAX) -> NoReturn:
    """Raises the RequirementError for `detail` at 0-based `position` of `source`."""
    raise RequirementError(kind, detail, one_line(source), position)


def tokenise(source: str, limit: int) -> list[Token]:
    """Tokens of `source`, the last of kind "end". Raises RequirementError."""
    if len(source) > limit:
        refuse(f"the text has {len(source)} characters, {limit} are allowed", source[:60] + "...", limit)
    tokens: list[Token] = []
    position = 0
    in_model = False
    while position < len(source):
        found = _TOKEN.match(source, position)
        if found is None and in_model and source[position] == "#":
            found = _HASH.match(source, position)
        if found is None:
            char = source[position]
            refuse(_HINTS.get(char) or f"{one_line(char)!r} {_UNUSABLE}", source, position)
        kind, text = found.lastgroup or "", found.group()
        if kind == "text":
            text = text[1:-1]
            if not text.isprintable():
                refuse("a quoted value holds a character that cannot be printed", source, position)
        if kind != "blank":
            tokens.append(Token(kind, text, position, found.end()))
        in_model = _begins_model(tokens) or (in_model and kind != "blank" and text not in _AFTER_MODEL)
        position = found.end()
    tokens.append(Token("end", "", len(source), len(source)))
    return tokens


def _begins_model(tokens: Sequence[Token]) -> bool:
    """Whether a model of a GPU comes next: there alone `#` means something, the memory (`gmodel=A100#40G`)."""
    return len(tokens) > 1 and tokens[-1].text == "=" and tokens[-2].text == "gmodel"


def is_name(word: str) -> bool:
    """Whether `word` can be the name of a resource."""
    return _NAME.fullmatch(word) is not None


def read_number(word: str) -> Number | None:
    """The number or size (`16G`, in MiB then) that `word` is; None if it is neither.

    Values are 0 or from 1e-9 up to 1e18: whatever is read can be written in full and read again.
    """
    found = _NUMBER.fullmatch(word)
    if found is None or len(word) > LONGEST_NUMBER:
        return None
    has_unit = found.group(2) is not None
    try:
        value = parse_mib(word) if has_unit else float(word)
    except BadRequest:
        return None
    return Number(value, word, has_unit) if value == 0 or _SMALLEST <= value < _LARGEST else None


class Cursor:
    """A place in the tokens of one text."""

    def __init__(self, source: str, limit: int) -> None:
        self.source = source
        self._tokens = tokenise(source, limit)
        self._index = 0
        self._sizes: set[tuple[int, int]] = set()
        self.has_classic = False
        """Whether a select section of old was read, whose meaning hangs on the direction of resources."""
        self.section = ""
        """The keyword of the section that is being read; empty between sections."""

    @property
    def sizes(self) -> list[tuple[int, int]]:
        """(start, end) in the text of the sizes without a unit that were noted so far, in the text's order."""
        return sorted(self._sizes)

    def note_size(self, start: int, end: int) -> None:
        """Remembers that a size without a unit stands from `start` to `end`."""
        self._sizes.add((start, end))

    def peek(self, ahead: int = 0) -> Token:
        """The token `ahead` places on, without moving; the end token beyond the end."""
        return self._tokens[min(self._index + ahead, len(self._tokens) - 1)]

    def seek(self, token: Token) -> None:
        """Moves back (or on) to `token`, which this cursor gave out."""
        self._index = self._tokens.index(token)
        self._sizes = {each for each in self._sizes if each[0] < token.start}

    def count(self, sign: str) -> int:
        """How often `sign` stands in the whole text."""
        return sum(token.kind == "sign" and token.text == sign for token in self._tokens)

    def take(self) -> Token:
        """The token here; the cursor moves on."""
        token = self.peek()
        self._index = min(self._index + 1, len(self._tokens) - 1)
        return token

    def sees(self, sign: str, ahead: int = 0) -> bool:
        """Whether the token `ahead` places on is `sign`."""
        token = self.peek(ahead)
        return token.kind == "sign" and token.text == sign

    def is_glued(self, ahead: int) -> bool:
        """Whether no blank stands before the token `ahead` places on."""
        return self.peek(ahead - 1).end == self.peek(ahead).start

    def accept(self, sign: str) -> bool:
        """Moves over `sign` if it is here, and says whether it was."""
        if not self.sees(sign):
            return False
        self.take()
        return True

    def expect(self, sign: str, where: str) -> None:
        """Moves over `sign`; raises RequirementError if it is not here."""
        if not self.accept(sign):
            self.fail(f"'{sign}' is wanted {where}, not {self.peek()}")

    def word(self, what: str, choices: Sequence[str] = ()) -> Token:
        """Moves over a word, one of `choices` if there are any; raises RequirementError that `what` is wanted."""
        token = self.peek()
        if token.kind != "word" or (choices and token.text not in choices):
            self.fail(f"{what} is wanted, not {token}")
        return self.take()

    def resource(self, where: str) -> Token:
        """Moves over the name of a resource; raises RequirementError that `where` wants one."""
        token = self.peek()
        if token.kind != "word" or not is_name(token.text):
            self.fail(f"{where} wants the name of a resource, not {token}")
        return self.take()

    def whole_number(self, what: str, least: int = 1) -> int:
        """Moves over a whole number of at most nine digits; raises RequirementError that `what` takes one."""
        token = self.peek()
        is_number = token.kind == "word" and token.text.isascii() and token.text.isdigit() and len(token.text) < 10
        if not is_number or int(token.text) < least:
            self.fail(f"{what} takes a whole number of at least {least}, not {token}")
        return int(self.take().text)

    def fail(self, detail: str, position: int | None = None) -> NoReturn:
        """Raises RequirementError at `position`, or here."""
        where = in_section(self.section) if self.section else ""
        refuse(where + detail, self.source, self.peek().start if position is None else position)


def in_section(keyword: str) -> str:
    """How LSF begins what it says of a section; programs look for it."""
    return f"Error in {keyword} section: "
