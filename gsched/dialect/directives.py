"""#BSUB lines of a script: finding them, and splitting one into words. What the words mean is not known here.

A directive begins with `#BSUB` in the first column; a blank behind it is optional; it may stand anywhere in the
script; quotes as in a shell; what follows an unquoted ` #` is a comment; variables are not expanded. The wide and
no-break blanks that web pages and word processors put into lines count as blanks, between quotes too.
Source: bsub(1), and the scripts that LSF's clients write.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gsched.base.errors import BadRequest
from gsched.dialect.options import place

_MARK = b"#BSUB"
_ODD_BLANKS = dict.fromkeys([0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000], " ")
"""The blanks of Unicode that a shell does not know as such: they are copied unseen."""
_BLANKS = (b" ", b"\t", b"-", *(chr(code).encode() for code in _ODD_BLANKS))
"""What may follow the mark."""
_PLAIN = re.compile(r"[^ \t\"'\\]+")
_QUOTED = {"'": re.compile(r"'([^']*)'"), '"': re.compile(r'"((?:[^"\\]++|\\["\\$`]?+)*+)"')}
_ESCAPED = re.compile(r'\\(["\\$`])')
"""In double quotes; a backslash before anything else stands for itself."""


def directives(script: bytes) -> Iterator[tuple[int, list[str]]]:
    """(1-based line number, words) of each directive. Raises BadRequest naming the line with a broken quote."""
    for number, line in enumerate(script.split(b"\n"), start=1):
        if not is_directive(line):
            continue
        rest = line.removesuffix(b"\r").removeprefix(_MARK)
        try:
            words = split_words(rest.decode("utf-8").translate(_ODD_BLANKS))
        except UnicodeDecodeError:
            raise BadRequest(f"{place(number)}: the #BSUB line is not UTF-8") from None
        except BadRequest as error:
            raise BadRequest(f"{place(number)}: {error.text}") from None
        yield number, words


def is_directive(line: bytes) -> bool:
    """Is it a #BSUB line?"""
    rest = line.removesuffix(b"\r").removeprefix(_MARK)
    return line.startswith(_MARK) and (not rest or rest.startswith(_BLANKS))


def split_words(text: str) -> list[str]:
    """Words of one line by a shell's rules for quotes, backslashes, comments. Raises BadRequest for an open quote."""
    words: list[str] = []
    word: str | None = None  # None between words: an empty quoted word is a word
    position = 0
    while position < len(text):
        char = text[position]
        if char in " \t":
            if word is not None:
                words.append(word)
            word = None
            position += 1
        elif char == "#" and word is None:
            break
        elif char in "\"'":
            quoted, position = _quoted(text, position)
            word = (word or "") + quoted
        elif char == "\\":  # the last one stands for itself
            word = (word or "") + (text[position + 1 : position + 2] or char)
            position += 2
        else:
            plain = _PLAIN.match(text, position)
            assert plain is not None
            word = (word or "") + plain[0]
            position = plain.end()
    if word is not None:
        words.append(word)
    return words


def _quoted(text: str, start: int) -> tuple[str, int]:
    """The quoted text that begins at `start`, and the position behind its closing quote."""
    quote = text[start]
    found = _QUOTED[quote].match(text, start)
    if found is None:
        raise BadRequest(f"the quote {quote} in '{text.strip()[:60]}' is not closed")
    return (found[1] if quote == "'" else _ESCAPED.sub(r"\1", found[1])), found.end()
