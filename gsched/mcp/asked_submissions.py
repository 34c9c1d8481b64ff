"""What an assistant asks to be submitted, read as gsub reads it and refused where it is more than a job. It submits
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gsched.base.errors import BadRequest
from gsched.cli.commands.submission.gsub import read_words
from gsched.dialect.bsub import ParsedSubmission
from gsched.mcp.command_runs import ToolCall


@dataclass(frozen=True, slots=True)
class AskedSubmission:
    """A line of gsub."""

    words: tuple[str, ...]
    """Behind `gsub`."""
    call: ToolCall
    asked: ParsedSubmission
    conf_dir: str

    def dry_run(self, *options: str) -> str:
        """What `gsub --dry-run` says of it. Raises BadRequest for what would be refused."""
        return ToolCall(["gsub", "--dry-run", *options, *self.words], self.conf_dir, only_reads=False).run()


def asked_submission(command: str, options: Sequence[str], conf_dir: str) -> AskedSubmission:
    """`command` is a line for the shell, `options` are words of gsub. Raises BadRequest."""
    if not command.strip() or command.lstrip().startswith("-"):
        raise BadRequest(f"command={command[:60]!r} is no command")
    words = (*options, command)
    call = ToolCall(["gsub", *words], conf_dir, only_reads=False)
    asked = read_words(call, words, call.read_stdin)
    if asked.is_for_terminal or asked.pack:
        raise BadRequest("-h, -V, -K, -I, --test-only, --dry-run and -pack are for the command line")
    if asked.script is None and asked.spec.command.strip() != command.strip():
        raise BadRequest(f"options has a word that is no option: gsub would run {asked.spec.command[:80]!r}")
    return AskedSubmission(words, call, asked, conf_dir)
