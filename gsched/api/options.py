"""Methods that name an option which they do not have: an error of gsched, with the name that is nearest.

It knows no option's meaning and no value.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from gsched.api.values import nearest
from gsched.base.errors import BadRequest

_Options = ParamSpec("_Options")
_Result = TypeVar("_Result")


def refuses_unknown_options(method: Callable[_Options, _Result]) -> Callable[_Options, _Result]:
    """The method; raises BadRequest where it is called with a keyword that it does not have."""
    code = method.__code__
    known = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    known = known[1:] if known[:1] == ("self",) else known

    @wraps(method)
    def checked(*args: _Options.args, **options: _Options.kwargs) -> _Result:
        for name in options:
            if name not in known:
                raise BadRequest(f"{method.__name__} has no option '{name}'{nearest(name, known)}")
        return method(*args, **options)

    return checked
