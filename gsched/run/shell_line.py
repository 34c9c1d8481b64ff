"""A command line in the form in which /bin/sh runs it in its own place where it can.

Some shells execute the only command of `-c` in place of themselves, others (dash) wait beside it. Then a command that
dies of a signal would be told as an exit code on one machine and as a signal on the next. So a line that is plainly one
program gets an `exec`; whatever could be more than that stays as it is. Never changes what a line does.
"""

from __future__ import annotations

from collections.abc import Mapping

_WORD = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./+-@%,:")
_PLAIN = _WORD | frozenset("= \t")
_OF_THE_SHELL = """
if then else elif fi for while until do done case esac in select function time coproc namespace alias autoload bg
bind break builtin caller cd chdir command compgen complete compopt continue declare dirs disown echo enable eval
exec exit export false fc fg float functions getconf getopts hash help hist history integer jobs kill let local
logout mapfile nameref newgrp popd print printf pushd pwd read readarray readonly redirect return set shift shopt
source stop suspend test times trap true type typeset ulimit umask unalias unset wait whence . :
"""
"""Reserved words, and builtins of dash, bash, ksh and busybox: before them `exec` would change the meaning."""
_KNOWN_TO_THE_SHELL = frozenset(_OF_THE_SHELL.split())


def in_place(command: str, environment: Mapping[str, str]) -> str:
    """`exec COMMAND` when the command is plainly one program with its words and redirections, else the same text.

    `environment` is the job's: bash finds functions there that may go by a program's name (`module`, say).
    """
    line = command.strip(" \t")
    first = line.split(" ", 1)[0].split("\t", 1)[0]
    if not first or not _WORD.issuperset(first) or _is_of_the_shell(first, environment) or not _is_simple(line):
        return command
    return f"exec {line}"


def plain_words(line: str) -> list[str]:
    """The words of a line made by `in_place` in which the shell would expand nothing; empty for any other line.

    Whoever executes them saves the start of a shell; where that fails, the shell must be asked, for its words about it.
    """
    rest = line[5:] if line.startswith("exec ") else ""
    return rest.split() if _PLAIN.issuperset(rest) else []


def _is_of_the_shell(word: str, environment: Mapping[str, str]) -> bool:
    functions = (f"BASH_FUNC_{word}%%", f"BASH_FUNC_{word}()")
    return word in _KNOWN_TO_THE_SHELL or any(function in environment for function in functions)


def _is_simple(line: str) -> bool:
    """No operator outside quotes, no substitution anywhere; with all quotes closed."""
    quote = ""
    previous = ""
    skip = False
    for character in line:
        if skip:
            if character == "\n":
                return False
            skip = False
        elif quote == "'":
            quote = "" if character == "'" else quote
        elif character == "\\":
            skip = True
        elif character == "`" or (previous == "$" and character in "({['\""):
            return False
        elif quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in ";|()\n" or (character == "&" and previous not in ("<", ">")):
            return False
        previous = character
    return not quote and not skip
