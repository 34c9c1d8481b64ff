"""Finds a text by its key, in the language that the reader's browser asks for first of those that there are."""

from __future__ import annotations

from collections.abc import Mapping

from gsched.web.texts.english import ENGLISH
from gsched.web.texts.korean import KOREAN

LANGUAGES: Mapping[str, Mapping[str, str]] = {"en": ENGLISH, "ko": KOREAN}
"""What a language lacks is said in English."""


class Words:
    """`t("jobs.count", n=3)`: the text of the key with its blanks filled. A key with `.one` beside it is for n=1."""

    def __init__(self, language: str) -> None:
        self.language = language
        self._texts = LANGUAGES[language]

    def __call__(self, key: str, **values: object) -> str:
        if values.get("n") == 1 and f"{key}.one" in ENGLISH:
            key = f"{key}.one"
        text = self._texts.get(key) or ENGLISH[key]
        return text.format(**values) if values else text


_WORDS = {language: Words(language) for language in LANGUAGES}


def words_for(accepted: str) -> Words:
    """For an Accept-Language header. Qualities are taken as browsers write them: in order."""
    for part in accepted[:1000].split(","):
        language = part.partition(";")[0].strip().lower().partition("-")[0]
        if language in _WORDS:
            return _WORDS[language]
    return _WORDS["en"]
