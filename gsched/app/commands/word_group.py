"""A click group whose words are imported when they are said, so that each starts as fast as it can.

Source: "Lazily Loading Subcommands" of click's documentation. LSF's words that are missing are refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import click

from gsched.base.errors import BadRequest
from gsched.base.machine.large_imports import LargeImport

HELP = ("help", "?")
QUIT = ("quit", "exit", "q")
"""Words of LSF's administrators' commands that belong to their prompt, and are understood on a command line as well."""

_PACKAGE = "gsched.app.commands"


class WordGroup(click.Group):
    """`places`: word -> `module:name` below gsched.app.commands."""

    def __init__(self, *args: Any, places: Mapping[str, str], **rest: Any) -> None:
        super().__init__(*args, **rest)
        self._places = places

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self._places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = self._places.get(cmd_name)
        return None if place is None else self._load(place)

    def words(self) -> dict[str, click.Command]:
        """All of them, imported."""
        return {word: self._load(self._places[word]) for word in sorted(self._places)}

    def _load(self, place: str) -> click.Command:
        module, _, name = place.partition(":")
        with LargeImport():
            command: click.Command = getattr(import_module(f"{_PACKAGE}.{module}"), name)
        return command


class InvalidCommand(click.ClickException):
    """A word that is none, told as LSF tells it."""

    def __init__(self, word: str, listing: str) -> None:
        super().__init__(f"Invalid command <{word}> ")
        self._listing = listing

    def show(self, file: Any = None) -> None:
        click.echo(f"{self.message}\n{self._listing} lists the commands", err=True)


class AdministrationGroup(WordGroup):
    """The words of badmin or lsadmin. `unsupported`: words of LSF that are refused by name -> what does the same."""

    def __init__(self, *args: Any, unsupported: Mapping[str, str], **rest: Any) -> None:
        super().__init__(*args, **rest)
        self._unsupported = unsupported
        self.listing = ""
        """What lists the words, as it is to be typed; empty: the command with -h."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        word = args[0]
        if word in HELP:
            self._explain(ctx, args[1:])
            ctx.exit()
        if word in QUIT:
            ctx.exit()
        self._refuse_unknown(ctx, word)
        return super().resolve_command(ctx, args)

    def _explain(self, ctx: click.Context, words: Sequence[str]) -> None:
        """Print what each word takes; without words, which there are."""
        if not words:
            click.echo(ctx.get_help())
        for word in words:
            self._refuse_unknown(ctx, word)
            command = self._load(self._places[word])
            click.echo(click.Context(command, info_name=word, parent=ctx).get_help())

    def _refuse_unknown(self, ctx: click.Context, word: str) -> None:
        """Raises BadRequest for a word of LSF that is not supported, InvalidCommand for one that is none."""
        if word not in self._places:
            if word in self._unsupported:
                hint = f"; {self._unsupported[word]}" if self._unsupported[word] else ""
                raise BadRequest(f"{word} is not supported{hint}")
            raise InvalidCommand(word, self.listing or f"{ctx.info_name or self.name} -h")
