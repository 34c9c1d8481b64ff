"""What is wrong with a GPU, as one word that requirements can compare: gpu_error0 in select[].

It is a code of `base.sentences`, so it stays the same however the sentence is worded. What `ghosts -gpu` shows is made
of the same problem, but where it is shown.
"""

from __future__ import annotations

from gsched.base.coded_text import AnyText, CodedText, has_code
from gsched.model.gpus.xid import xids_in

NO_ERROR = "-"
_AROUND = ("gpu.until_reset", "list.comma", "list.semicolon")
"""Texts that only join or go with others: what is wrong is their first parameter."""


def error_word(problem: AnyText) -> str:
    """The code of a GPU's problem (`gpu.too_hot`), `xid.79` for an error of the driver, `-` for none.

    The first where there are several. Words without a code (of an inventory, of an agent of before) stay as they are.
    """
    if isinstance(problem, str):
        return problem or NO_ERROR
    if numbers := xids_in(problem):
        return f"xid.{numbers[0]}"
    while has_code(problem, *_AROUND) and isinstance(problem.values[0], CodedText):
        problem = problem.values[0]
    return problem.code
