"""From the words behind bsub's options to the one line that a shell runs on the execution host.

The effects are LSF's (its first word is shell text, later ones stay words); where the original's quoting breaks,
a word with both kinds of quotes say, this is right. Nothing is expanded here.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from gsched.base.coded_text import coded

_ESCAPED = frozenset("\"'\\()")
_GPU_VARIABLE = "CUDA_VISIBLE_DEVICES"


def join_words(words: Sequence[str], *, quote_first: bool = False) -> str:
    """The command line of `words`. `quote_first` (LSB_API_QUOTE_CMD=Y) treats the first like the others.

    The first word is taken as it is: `gsub "a; b > c"` is a small script. A later word with a blank in it, or an empty
    one, is quoted so that the job gets it as one word; one that begins with `$` is not expanded; quotes, backslashes
    and parentheses are escaped; all else is left to the shell on the execution host, so `gsub prog '>' out` redirects
    there.
    """
    if not words:
        return ""
    first = _quoted(words[0]) if quote_first else words[0]
    return " ".join([first, *(_quoted(word) for word in words[1:])])


_ORDINARY = re.compile(r"[\w./:=,@%+-]+", re.ASCII)
"""A word that no shell changes."""


def _quoted(word: str) -> str:
    if _ORDINARY.fullmatch(word):
        return word
    has_blank = any(char.isspace() for char in word)
    if word.startswith("$") or (has_blank and ('"' in word or "$" in word)):
        return "'" + word.replace("'", "'\\''") + "'"
    if has_blank or not word:
        return '"' + word.replace("\\", "\\\\").replace("`", "\\`") + '"'
    return "".join("\\" + char if char in _ESCAPED else char for char in word)


_VARIABLE = re.compile(r"\$(?:[A-Za-z_][A-Za-z0-9_]*|\{[A-Za-z_][A-Za-z0-9_]*\})", re.ASCII)


def unexpanded(words: Sequence[str]) -> str:
    """The first word behind the command's own that is a variable and nothing else; empty when there is none.

    Whoever writes one in single quotes mostly wants its value on the execution host; it arrives there as it is.
    """
    return next((word for word in words[1:] if _VARIABLE.fullmatch(word)), "")


BACKGROUND_WARNING = coded("warning.background")
"""What gsub says of a job whose command is left in the background."""


def ends_in_background(text: str) -> bool:
    """Whether the last line of a command or script that is more than a comment leaves what it starts running."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    last = lines[-1] if lines else ""
    if not last.endswith("&") or last.endswith(("&&", "\\&", ">&", "<&")):
        return False
    try:
        return bool(shlex.split(last))
    except ValueError:  # it stands within quotes that were opened before
        return False


_SUDO_OPTIONS_WITH_VALUE = frozenset("CDghpRrTtUu")
_PREFIXES = frozenset({"env", "time", "nohup", "exec", "nice", "command"})


def drops_environment(command: str) -> bool:
    """Does `command` run its program through sudo without keeping the environment?

    Then the job's CUDA_VISIBLE_DEVICES is lost and its program sees every GPU. Looked at is only the beginning of the
    line: assignments and words like `env` or `time`, then `sudo`. `-E`, `--preserve-env` (all, or naming the variable)
    and an assignment of the variable behind sudo keep it. Whether sudoers allows keeping it cannot be seen from here.
    """
    if "sudo" not in command:  # to split it takes as long as to read a whole submission
        return False
    try:
        words = shlex.split(command)
    except ValueError:
        return False
    position = 0
    while position < len(words) and (words[position] in _PREFIXES or _is_assignment(words[position])):
        position += 1
    if position == len(words) or words[position].rpartition("/")[2] != "sudo":
        return False
    return not _sudo_keeps(words[position + 1 :])


def _is_assignment(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and name.isidentifier()


def _sudo_keeps(words: Sequence[str]) -> bool:
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if word == "--preserve-env" or word.startswith(f"{_GPU_VARIABLE}="):
            return True
        if word.startswith("--preserve-env="):
            if _GPU_VARIABLE in word.partition("=")[2].split(","):
                return True
        elif word.startswith("-") and not word.startswith("--") and word != "-":
            keeps, value_follows = _sudo_letters(word[1:])
            if keeps:
                return True
            position += value_follows
        elif word == "--" or not (word.startswith("--") or _is_assignment(word)):
            return False
    return False


def _sudo_letters(letters: str) -> tuple[bool, bool]:
    """(is -E among them, is the next word the value of the last one)."""
    for position, letter in enumerate(letters):
        if letter == "E":
            return True, False
        if letter in _SUDO_OPTIONS_WITH_VALUE:
            return False, position == len(letters) - 1
    return False, False
