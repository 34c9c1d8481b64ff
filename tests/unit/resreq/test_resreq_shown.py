"""Combined and Effective of jobs with -gpu, as LSF shows them."""

from __future__ import annotations

import pytest
from resreq_readings import combine_texts

from gsched.resreq.combining.shown_requirement import with_gpus
from gsched.resreq.parsing.printer import print_combined
from gsched.resreq.parsing.syntax import parse_combined_any

GPU = "num=2:mode=shared:mps=no:j_exclusive=no:gvendor=nvidia"


@pytest.mark.parametrize(
    ("job", "gpu", "combined", "effective"),
    [
        (
            "",
            GPU,
            "select[(ngpus>0) && (type == local)] order[r15s:pg] rusage[ngpus_physical=2.00]",
            "select[((ngpus>0)) && (type == local)] order[r15s:pg] rusage[ngpus_physical=2.00]",
        ),
        (
            "select[mem>5] rusage[mem=10]",
            "num=1/task",
            "select[(ngpus>0) && (mem>5) && (type == local)] order[r15s:pg] rusage[mem=10.00,ngpus_physical=1.00/task]",
            "select[((ngpus>0)) && (mem>5) && (type == local)] order[r15s:pg] "
            "rusage[mem=10.00,ngpus_physical=1.00/task]",
        ),
        (
            "rusage[ngpus_physical=1:gmem=1G]",
            "share=0.25",
            "select[(ngpus>0) && (type == local)] order[r15s:pg] rusage[ngpus_physical=0.25]",
            "select[((ngpus>0)) && (type == local)] order[r15s:pg] rusage[ngpus_physical=0.25]",
        ),
        (
            "{mem>1} || {type==any}@5",
            "num=1",
            "{select[(ngpus>0) && (mem>1) && (type == local)] order[r15s:pg] rusage[ngpus_physical=1.00]} || "
            "{select[(ngpus>0) && (type == any ) && (type == any)] order[r15s:pg] rusage[ngpus_physical=1.00]}@5",
            "{select[((ngpus>0)) && (mem>1) && (type == local)] order[r15s:pg] rusage[ngpus_physical=1.00]} || "
            "{select[((ngpus>0)) && (type == any ) && (type == any)] order[r15s:pg] rusage[ngpus_physical=1.00]}@5",
        ),
    ],
)
def test_the_gpu_request_stands_in_the_requirement(job: str, gpu: str, combined: str, effective: str) -> None:
    text = combine_texts(job).text
    assert with_gpus(text, gpu) == combined
    assert with_gpus(text, gpu, is_effective=True) == effective


@pytest.mark.parametrize("text", ["", "select[mem>", "select[type == local] order[r15s:pg]"])
def test_without_a_gpu_request_or_with_a_broken_text_nothing_changes(text: str) -> None:
    assert with_gpus(text, "") == text
    if "order" not in text:
        assert with_gpus(text, GPU) == text


@pytest.mark.parametrize("job", ["", "type==any", "mem>1 && swp>2", "(mem>1)", "type==any && mem>1", "select[a||b]"])
@pytest.mark.parametrize("queue", ["", "type==any && mem>1 same[type]", "mem>5"])
def test_a_combined_requirement_is_written_as_it_was_read(job: str, queue: str) -> None:
    text = combine_texts(job, queue).text
    assert print_combined(parse_combined_any(text)) == text
