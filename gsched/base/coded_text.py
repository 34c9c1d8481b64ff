"""A text that a user will read, as it travels: its code and its parameters. The sentence is made where it is shown.

Nothing is ever decided by a sentence: who needs to know what a text says compares codes and values. Stores and programs
of before have sentences instead, which stay what they are: an `AnyText` that is a `str`.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gsched.base.counts import Count
from gsched.base.sentences import SENTENCES


class CodedText(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """`code` is a key of SENTENCES, `values` fill its blanks. Two that are equal say the same."""

    code: str
    values: tuple[str | int | float | CodedText, ...] = ()

    def __str__(self) -> str:
        return sentence(self)


AnyText = CodedText | str
CodedValue = str | int | float | CodedText


def coded(code: str, *values: CodedValue) -> CodedText:
    """The text of that code with these parameters."""
    return CodedText(code, values)


def listed(texts: Sequence[AnyText], between: str = "list.comma") -> AnyText:
    """All that are not empty, with commas between, or what the code `between` has.

    The first half and the rest are each a list in turn, for no text is nested deeply.
    """
    texts = [text for text in texts if text]
    if len(texts) < 2:
        return texts[0] if texts else ""
    half = (len(texts) + 1) // 2
    return coded(between, listed(texts[:half], between), listed(texts[half:], between))


def order_of(text: AnyText) -> tuple[str, str]:
    """A key to sort texts by that does not depend on how they are worded."""
    return (text, "") if isinstance(text, str) else (text.code, repr(text.values))


def has_code(text: AnyText, *codes: str) -> bool:
    """Whether the text has one of these codes."""
    return isinstance(text, CodedText) and text.code in codes


def sentence(text: AnyText) -> str:
    """The words for the text. Never raises: of a code that is not known here it shows code and parameters."""
    if isinstance(text, str):
        return text
    values = [_filled_in(value) for value in text.values]
    template = SENTENCES.get(text.code)
    if template is not None:
        try:
            return template.format(*values)
        except (IndexError, ValueError, TypeError):  # told by a program of another version
            pass
    return f"{text.code}({', '.join(map(str, values))})" if values else text.code


def _filled_in(value: CodedValue) -> CodedValue:
    if isinstance(value, CodedText):
        return sentence(value)
    return Count(value) if isinstance(value, int) else value
