"""What has changed between two values made of dicts, lists and plain values, as such a value itself, and its way back.

`patched(old, delta_of(old, new)) == new`. It must never know what the values mean. Forms of a delta: `[0, value]` in
place of the old one; `[1, {key: delta}, [keys that are gone]]` of a dict; `[2, {index: delta}]` of a list that is as
long as it was, its indices as text.
"""

from __future__ import annotations

from typing import Any

Delta = list[Any]
"""See above."""
_WHOLE, _OF_DICT, _OF_LIST = 0, 1, 2
MOST_DEPTH = 64
"""Of a delta: what is deeper was not made here."""


def delta_of(old: Any, new: Any) -> Delta | None:
    """What makes `new` of `old`; None where they are equal."""
    if old == new:
        return None
    if isinstance(old, dict) and isinstance(new, dict):
        changed = {key: delta_of(old[key], value) if key in old else [_WHOLE, value] for key, value in new.items()}
        found = {key: delta for key, delta in changed.items() if delta is not None}
        return [_OF_DICT, found, [key for key in old if key not in new]]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        deltas = ((str(index), delta_of(*pair)) for index, pair in enumerate(zip(old, new, strict=True)))
        return [_OF_LIST, {index: delta for index, delta in deltas if delta is not None}]
    return [_WHOLE, new]


def patched(old: Any, delta: Any, depth: int = 0) -> Any:
    """The new value; `old` stays as it is. Raises ValueError for what is no delta, or not one of this value."""
    try:
        if depth > MOST_DEPTH:
            raise ValueError("too deep")
        kind = delta[0]
        if kind == _WHOLE:
            return delta[1]
        if kind == _OF_DICT:
            _, changed, gone = delta
            kept = {key: value for key, value in old.items() if key not in set(gone)}
            return kept | {key: patched(old.get(key), each, depth + 1) for key, each in changed.items()}
        if kind == _OF_LIST:
            found = list(old)
            for index, each in delta[1].items():
                found[int(index)] = patched(old[int(index)], each, depth + 1)
            return found
    except (TypeError, IndexError, KeyError, AttributeError) as error:
        raise ValueError(f"not a change of this value: {error!r}") from None
    raise ValueError(f"{kind!r} is no kind of change")
