"""The words of every coded text, in English: code -> sentence with numbered blanks for its parameters.

All of them are in SENTENCES; the modules here are its parts, by topic. Start with `pending_texts` for an example. They
may be reworded, or another table put in the place of SENTENCES, and nothing else changes: a test does so. A code and
the order of its parameters never change once events are stored; a new meaning is a new code. No code stands in two
parts.
"""

from __future__ import annotations

from gsched.base.sentences.attempt_texts import ATTEMPT_TEXTS
from gsched.base.sentences.comparison_texts import COMPARISON_TEXTS
from gsched.base.sentences.failure_texts import FAILURE_TEXTS
from gsched.base.sentences.gpu_texts import GPU_TEXTS
from gsched.base.sentences.host_texts import HOST_TEXTS
from gsched.base.sentences.job_texts import JOB_TEXTS
from gsched.base.sentences.limit_texts import LIMIT_TEXTS
from gsched.base.sentences.list_texts import LIST_TEXTS
from gsched.base.sentences.notice_texts import NOTICE_TEXTS
from gsched.base.sentences.pending_texts import PENDING_TEXTS
from gsched.base.sentences.refusal_texts import REFUSAL_TEXTS

SENTENCES: dict[str, str] = {
    **ATTEMPT_TEXTS,
    **COMPARISON_TEXTS,
    **FAILURE_TEXTS,
    **GPU_TEXTS,
    **HOST_TEXTS,
    **JOB_TEXTS,
    **LIMIT_TEXTS,
    **LIST_TEXTS,
    **NOTICE_TEXTS,
    **PENDING_TEXTS,
    **REFUSAL_TEXTS,
}
