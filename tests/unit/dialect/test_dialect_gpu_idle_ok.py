"""--gpu-idle-ok of gsub and gmod, by both names and on #BSUB lines."""

from __future__ import annotations

import pytest
from test_dialect_bsub import AROUND, refusal, submit

from gsched.base.errors import BadRequest
from gsched.dialect.bmod import read_modification


@pytest.mark.parametrize(
    "words",
    [
        ("--gpu-idle-ok", "waits  for data"),
        ("--gpu-idle-ok=waits for data",),
        ("-gpu-idle-ok", "waits for data"),
        ("-gpu-idle-ok waits for data",),
        ("-gpu", "num=1", "-gpu-idle-ok", "waits for data"),
    ],
)
def test_both_names_give_the_reason(words: tuple[str, ...]) -> None:
    spec = submit(*words, "run").spec
    assert (spec.gpu_idle_ok, spec.command) == ("waits for data", "run")


def test_in_a_script() -> None:
    script = b'#!/bin/sh\n#BSUB --gpu-idle-ok "waits for data"\n#BSUB -gpu num=1\nrun\n'
    spec = submit(stdin=script).spec
    assert (spec.gpu_idle_ok, spec.gpu_req) == ("waits for data", "num=1")
    assert submit("--gpu-idle-ok", "mine", stdin=script).spec.gpu_idle_ok == "mine"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--gpu-idle-ok", " "), "--gpu-idle-ok needs a reason that is not empty"),
        (("--gpu-idle-ok", "-K"), "option --gpu-idle-ok needs a value (REASON); the next word is option -K"),
        (("--gpu-idle-ok", "x" * 4095), "--gpu-idle-ok: the reason is longer than 4094 characters"),
        (("--gpu-idle-okay", "x"), "unknown option --gpu-idle-okay; did you mean --gpu-idle-ok?"),
    ],
)
def test_what_is_wrong_is_said(words: tuple[str, ...], text: str) -> None:
    assert refusal(*words, "run") == text


def test_gmod_gives_it_and_takes_it_back() -> None:
    assert read_modification(["--gpu-idle-ok", "measures", "12"], AROUND).values == {"gpu_idle_ok": "measures"}
    assert read_modification(["--gpu-idle-okn", "12"], AROUND).values == {"gpu_idle_ok": ""}
    with pytest.raises(BadRequest, match="options --gpu-idle-ok and --gpu-idle-okn contradict each other"):
        read_modification(["--gpu-idle-ok", "x", "--gpu-idle-okn", "12"], AROUND)
