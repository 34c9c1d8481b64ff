"""Which of the caller's variables a job gets: bsub's -env. Nothing here reads an environment by itself.

`all` (the default) passes every variable, `none` none; then NAME passes one, NAME=VALUE sets one, ~NAME drops one.
A list without `all` or `none` passes only what it names. Several -env add up; the last of `all` and `none` counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gsched.base.errors import BadRequest
from gsched.dialect.service_options import JUPYTER_TOKEN
from gsched.model.jobs.job_service import TOKEN, VARIABLES


def choose_environment(lists: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """Variables of the job for the values of -env, in the order given. Raises BadRequest naming the wrong item."""
    if not lists:
        return dict(environment)
    items = [item for text in lists for item in _items(text)]
    keywords = [item for item in items if item in ("all", "none")]
    chosen = dict(environment) if keywords and keywords[-1] == "all" else {}
    for item in items:
        if item in ("all", "none"):
            continue
        name, equals, value = item.partition("=")
        bare = name.removeprefix("~")
        if not bare or any(char.isspace() for char in bare) or (equals and bare != name):
            raise BadRequest(f"-env: '{item}' is not NAME, NAME=VALUE or ~NAME")
        if bare != name:
            chosen.pop(bare, None)
        elif equals:
            chosen[name] = value
        elif name in environment:
            chosen[name] = environment[name]
    return chosen


def environment_block(environment: Mapping[str, str]) -> bytes:
    """`NAME=value` pieces, each ended by a NUL byte, as the kernel keeps them; bytes that are no UTF-8 survive.

    What the service of the job that submits is told is no other job's business: its secret is kept nowhere.
    """
    own = set(VARIABLES)
    if (secret := environment.get(TOKEN)) and environment.get(JUPYTER_TOKEN) == secret:
        own.add(JUPYTER_TOKEN)
    if "SLURM_JOB_ID" in environment:  # a job of Slurm's commands submits: what it is told is of that job alone
        own.update(name for name in environment if name.startswith("SLURM"))
    pieces = (f"{name}={value}\0" for name, value in environment.items() if name not in own)
    return "".join(pieces).encode("utf-8", "surrogateescape")


def _items(text: str) -> Iterator[str]:
    """Parts between commas; a comma inside quotes belongs to the value, and quotes around a value are dropped."""
    part, quote = "", ""
    for char in text:
        if quote:
            if char == quote:
                quote = ""
            else:
                part += char
        elif char in "\"'":
            quote = char
        elif char == ",":
            yield part.strip()
            part = ""
        else:
            part += char
    if quote:
        raise BadRequest(f"-env: the quote {quote} in '{text}' is not closed")
    yield part.strip()
