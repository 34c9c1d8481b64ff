"""`gadmin history`: what is kept of the past."""

from __future__ import annotations

import click

from gsched.app.commands.kept_history.archive_words import archive
from gsched.app.commands.kept_history.store_room_words import compact, status


@click.group("history")
def history() -> None:
    """Archive what is kept of finished jobs, count it, and give the room of what is gone back."""


history.add_command(archive)
history.add_command(status)
history.add_command(compact)
