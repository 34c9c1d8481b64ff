"""Lines of a terminal or of standard input, each carried out as the words of a command line.

Source: badmin(8) and lsadmin(8) of LSF 10.1: without arguments they prompt for subcommands on standard input, `help`
and `?` explain them, `quit` ends. LSF does not say with what exit code; here it is 0 for `quit` and on a terminal.
Where the lines come from a file or a pipe, the end of input gives the code of the last one that failed: a script is to
see it.

A line that fails must never end the prompt, and no line is carried out when Ctrl-C has given it up.
"""

from __future__ import annotations

import io
import select
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module

import click

from gsched.app.commands.prompt.prompt_history import PromptHistory, history_path
from gsched.app.commands.word_group import HELP, QUIT, AdministrationGroup
from gsched.base.errors import LSF_FAILURE

INTERRUPTED = 130
"""Exit code of what Ctrl-C has ended."""
OUTPUT_IS_GONE = 141
"""Exit code where nobody reads the output any more, as that of a program that SIGPIPE ends."""

Run = Callable[[click.Command, str, Sequence[str]], None]
"""Runs a command under a name with these words; ends by SystemExit where it fails, having said why."""
ReadLine = Callable[[], str]
"""The next line. Raises EOFError at the end of input, KeyboardInterrupt when the line is given up."""


def open_prompt(group: AdministrationGroup, name: str, run: Run) -> int:
    """Carry out lines until `quit` or the end of input; the exit code. `name`: as the command was called."""
    if not isinstance(sys.stdin, io.TextIOWrapper):  # it is closed
        return 0
    # What is no text is told by the command that gets it, as on a command line.
    sys.stdin.reconfigure(errors="surrogateescape")
    group.listing = HELP[0]
    if sys.stdin.isatty():
        _on_terminal(group, name, run, _terminal_lines(group, name))
        return 0
    return _of_input(group, name, run, sys.stdin)


def candidates(group: AdministrationGroup, before: Sequence[str], begun: str) -> list[str]:
    """The words that may stand behind those `before` and go on as the `begun` one: subcommands, or options of one."""
    context = click.Context(group)
    if not before:
        found = [*group.list_commands(context), *HELP, *QUIT]
    elif before[0] in HELP:
        found = group.list_commands(context)
    else:
        command = group.get_command(context, before[0])
        options = command.get_params(context) if command is not None and begun.startswith("-") else []
        found = [text for option in options if isinstance(option, click.Option) for text in option.opts]
    return sorted(each for each in found if each.startswith(begun))


def _terminal_lines(group: AdministrationGroup, name: str) -> ReadLine:
    """Lines that are edited where Python can, and plain ones elsewhere."""
    prompt = f"{name}> "
    history = PromptHistory(history_path(group.name or name))
    try:
        # Not for the lines of a pipe: readline writes to the terminal when it is loaded.
        editing = import_module("gsched.app.commands.prompt.line_editing")
    except ImportError:  # this Python was built without readline
        return lambda: input(prompt)
    read: ReadLine = editing.EditedLines(
        prompt, history, lambda before, begun: candidates(group, before, begun)
    ).read_line
    return read


def _on_terminal(group: AdministrationGroup, name: str, run: Run, read_line: ReadLine) -> None:
    is_given_up = False
    while True:
        try:
            if is_given_up:
                is_given_up = False
                click.echo()  # the line stands there; not below, where the next Ctrl-C would end the prompt
            line = read_line()
            if _is_end(line) or _carry_out(group, name, run, line, name) == OUTPUT_IS_GONE:
                return
        except KeyboardInterrupt:
            is_given_up = True
        except EOFError:
            click.echo()  # the prompt stands there
            return


def _of_input(group: AdministrationGroup, name: str, run: Run, stream: io.TextIOWrapper) -> int:
    """The lines of a file or a pipe. Ctrl-C ends them all: nobody can type the next."""
    failed = 0
    for number, line in _numbered(stream):
        if _is_end(line):
            return 0
        code = _carry_out(group, name, run, line, f"{name}: line {number}")
        if code in (INTERRUPTED, OUTPUT_IS_GONE):
            return code
        failed = code or failed
    return failed


def _numbered(stream: io.TextIOWrapper) -> Iterator[tuple[int, str]]:
    """One by one: a command that asks a question reads its answer from the same stream."""
    number = 0
    while line := stream.readline():
        number += 1
        yield number, line


def _is_end(line: str) -> bool:
    return line.strip() in QUIT


def _carry_out(group: AdministrationGroup, name: str, run: Run, line: str, where: str) -> int:
    """The exit code of one line: 0 for one that is empty or a comment.

    Nothing is done any more when nobody can see what: then it is OUTPUT_IS_GONE.
    """
    if not _is_output_read():
        return OUTPUT_IS_GONE
    if line.lstrip().startswith("#"):
        return 0
    try:
        words = shlex.split(line)
    except ValueError as problem:
        click.echo(f"{where}: {line.strip()[:60]}: {problem}", err=True)
        return LSF_FAILURE
    if not words:
        return 0
    try:
        run(group, name, words)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else LSF_FAILURE
    return 0


def _is_output_read() -> bool:
    """Whether standard output has not been closed by who reads it: when it is written, click tells nobody of it."""
    output = select.poll()
    output.register(1, 0)
    return not any(events & (select.POLLERR | select.POLLHUP) for _, events in output.poll(0))
