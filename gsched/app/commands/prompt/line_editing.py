"""Lines of a terminal that are edited by readline, with the lines of before and completion.

Loading it loads readline, which starts to look after the terminal: nothing but a prompt may import it.
"""

from __future__ import annotations

import readline
from collections.abc import Callable, Sequence

from gsched.app.commands.prompt.prompt_history import PromptHistory

Candidates = Callable[[Sequence[str], str], list[str]]
"""(the words before the cursor, the one that is begun) -> what it may become."""


class EditedLines:
    """`read_line` shows `prompt` and takes a line; those that are not blank are kept in `history`."""

    def __init__(self, prompt: str, history: PromptHistory, candidates: Candidates) -> None:
        self._prompt, self._history, self._candidates = prompt, history, candidates
        self._last = ""
        self._found: list[str] = []
        for line in history.lines():
            readline.add_history(line)
            self._last = line
        # What a command asks for is no line of the prompt.
        readline.set_auto_history(False)
        readline.set_completer(self._complete)
        readline.set_completer_delims(" \t")
        is_libedit = "libedit" in (readline.__doc__ or "")
        readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")

    def read_line(self) -> str:
        """Raises EOFError, KeyboardInterrupt."""
        line = input(self._prompt)
        if line.strip() and line != self._last:
            readline.add_history(line)
            self._history.add(line)
            self._last = line
        return line

    def _complete(self, begun: str, state: int) -> str | None:
        """readline asks with state 0, 1, ... until there is no further one."""
        if state == 0:
            before = readline.get_line_buffer()[: readline.get_begidx()].split()
            self._found = self._candidates(before, begun)
        return f"{self._found[state]} " if state < len(self._found) else None
