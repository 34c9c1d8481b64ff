"""Which line of a job's output says why it failed."""

from __future__ import annotations

import pytest

from gsched.agent.output.failure_lines import LONGEST_LINE, MOST_BYTES, failure_in
from gsched.model.jobs.failure import LONGEST_DETAIL
from gsched.model.jobs.job import AttemptFailure

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB."
TRACEBACK = "Traceback (most recent call last):\n"


def kind_of(stdout: str = "", stderr: str = "") -> str:
    failure = failure_in(stdout.encode(), stderr.encode())
    return failure.kind if failure is not None else ""


@pytest.mark.parametrize(
    "before", ["", "[rank3]: ", "3: ", "[1,3]<stderr>:", "(Worker pid=41) ", "\x1b[31m", "[ 3]", "2024-02-07 09:16:40 "]
)
def test_what_launchers_put_before_a_line_does_not_hide_it(before: str) -> None:
    text = f'{before}Traceback (most recent call last):\n{before}  File "a.py", line 1, in <module>\n{before}{OOM}\n'
    later = "subprocess.CalledProcessError: Command '[\"python\"]' returned non-zero exit status 1.\n"
    assert kind_of(text + TRACEBACK + later) == "cuda_oom"


@pytest.mark.parametrize(
    ("text", "kind", "detail"),
    [
        (f"{TRACEBACK}  File x\nKeyError: 'name'\n", "python_error", "KeyError"),
        (f"{TRACEBACK}  File x\nmy.pkg.Unhappy\n", "python_error", "Unhappy"),
        (f"{TRACEBACK}ModuleNotFoundError: No module named 'flash_attn.ops'\n", "python_import", "flash_attn.ops"),
        ("./a: error while loading shared libraries: libnccl.so.2: cannot open", "missing_library", "libnccl.so.2"),
        ("RuntimeError: CUDA error: device-side assert triggered", "cuda_error", "device-side assert triggered"),
        (f"{TRACEBACK}  File x\nMemoryError\n", "host_oom", ""),
    ],
)
def test_the_name_goes_with_it_and_nothing_else(text: str, kind: str, detail: str) -> None:
    assert failure_in(text.encode(), b"") == AttemptFailure(kind=kind, detail=detail)


def test_a_warning_of_a_program_that_has_gone_on_counts_only_if_there_is_nothing_else() -> None:
    warning = "WARNING: ran out of memory with exception: CUDA out of memory. Tried to allocate 3 GiB; skipping batch\n"
    assert kind_of(warning + f"{TRACEBACK}  File x\nValueError: not enough values to unpack\n") == "python_error"
    assert kind_of(warning + "step 2\n") == "cuda_oom"
    assert kind_of(warning + "step\n" * 100) == ""
    assert kind_of(warning + "step\n" * 100, "bye\n") == ""


def test_effects_do_not_hide_their_cause_and_the_last_cause_counts() -> None:
    nccl = "torch.distributed.DistBackendError: NCCL error: remote process exited or there was a network error\n"
    dog = "[E ProcessGroupNCCL.cpp:475] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2)\n"
    full = f"{TRACEBACK}OSError: [Errno 28] No space left on device\n"
    assert kind_of(full + dog + nccl) == "disk_full"
    assert kind_of(dog + nccl) == "nccl_timeout"
    assert kind_of(nccl) == "nccl_error"
    assert kind_of(f"{OOM}\n{full}") == "disk_full"
    assert kind_of(full, f"{OOM}\n") == "cuda_oom"


def test_it_reads_no_more_than_the_end_and_takes_any_bytes() -> None:
    assert failure_in(f"{OOM}\n".encode() + b"x\n" * MOST_BYTES, b"") is None
    assert failure_in(b"\xff\xfe\0" + OOM.encode() + b"\xff\r50%\r100%", b"\0" * 1000) is not None
    assert failure_in(b"x" * LONGEST_LINE + OOM.encode(), b"") is None
    name = "m" * 1000
    failure = failure_in(f"ModuleNotFoundError: No module named '{name}'".encode(), b"")
    assert failure is not None and len(failure.detail) == LONGEST_DETAIL
    assert failure_in(b"", b"") is None
