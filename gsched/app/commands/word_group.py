"""A click group whose words are imported when they are said, so that each starts as fast as it can.

Source: "Lazily Loading Subcommands" of click's documentation. LSF's words that are missing are refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

from gsched.base.errors import BadRequest
from gsched.base.machine.large_imports import LargeImport

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

    def __init__(self, word: str, program: str) -> None:
        super().__init__(f"Invalid command <{word}> ")
        self._program = program

    def show(self, file: Any = None) -> None:
        click.echo(f"{self.message}\n{self._program} -h lists the commands", err=True)


class AdministrationGroup(WordGroup):
    """The words of badmin or lsadmin. `unsupported`: words of LSF that are refused by name -> what does the same."""

    def __init__(self, *args: Any, unsupported: Mapping[str, str], **rest: Any) -> None:
        super().__init__(*args, **rest)
        self._unsupported = unsupported

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        word, program = args[0], ctx.info_name or self.name or ""
        if word in ("help", "?"):
            click.echo(ctx.get_help())
            ctx.exit()
        if word not in self._places:
            if word in self._unsupported:
                hint = f"; {self._unsupported[word]}" if self._unsupported[word] else ""
                raise BadRequest(f"{word} is not supported{hint}")
            raise InvalidCommand(word, program)
        return super().resolve_command(ctx, args)
