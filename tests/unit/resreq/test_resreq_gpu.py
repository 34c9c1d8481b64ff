"""The GPU requirement string: reading, printing, merging, what is refused."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gsched.base.errors import RequirementError
from gsched.resreq.ast import simple_parts
from gsched.resreq.parsing.gpu import (
    BAD_GPU,
    MAX_LENGTH,
    GpuRequirement,
    gpu_of,
    merge_gpu,
    model_matches,
    parse_gpu,
    print_gpu,
    unsupported_by_agent,
)
from gsched.resreq.parsing.printer import print_any
from gsched.resreq.parsing.syntax import parse, parse_any

calm = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def read(text: str) -> GpuRequirement:
    asked = parse_gpu(text)
    assert asked is not None
    return asked


@pytest.mark.parametrize(
    ("text", "asked", "printed"),
    [
        ("num=1", GpuRequirement(), "num=1:mode=shared:mps=no:j_exclusive=no:gvendor=nvidia"),
        (
            "num=2/task:mode=exclusive_process",
            GpuRequirement(num=2, per="task", mode="exclusive_process", j_exclusive=True),
            "num=2/task:mode=exclusive_process:mps=no:j_exclusive=yes:gvendor=nvidia",
        ),
        ("num=4/host:j_exclusive=yes", GpuRequirement(num=4, j_exclusive=True), None),
        (
            "mps=per_gpu,nocvd,shared",
            GpuRequirement(mps="per_gpu,shared,nocvd"),
            "num=1:mode=shared:mps=per_gpu,shared,nocvd:j_exclusive=no:gvendor=nvidia",
        ),
        (
            "gmem=16G:gmodel=TeslaV100_PCIE_32GB:gtile='!':nvlink=yes",
            GpuRequirement(gmem_mib=16384.0, gmodel="TeslaV100_PCIE_32GB", gtile="!", glink=True),
            "num=1:mode=shared:mps=no:j_exclusive=no:gvendor=nvidia:gmodel=TeslaV100_PCIE_32GB:gmem=16G:gtile=!:glink=yes",
        ),
        ("gmem=500", GpuRequirement(gmem_mib=500.0), None),
        ("gmem=1.5G:gtile=2", GpuRequirement(gmem_mib=1536.0, gtile="2"), None),
        ("mig=3/2", GpuRequirement(mig="3/2"), None),
        ("num=2..8", GpuRequirement(num=2, most=8), "num=2..8:mode=shared:mps=no:j_exclusive=no:gvendor=nvidia"),
        ("num=1..4/host:gmem=1G", GpuRequirement(num=1, most=4, gmem_mib=1024.0), None),
        (
            "aff=no:block=yes:gpack=yes:glink=no",
            GpuRequirement(aff=False, block=True, gpack=True),
            "num=1:mode=shared:mps=no:j_exclusive=no:gvendor=nvidia:aff=no:block=yes:gpack=yes",
        ),
        ("gvendor=amd:gmodel=K80-12G", GpuRequirement(gvendor="amd", gmodel="K80-12G"), None),
        (" num = 1 : share = 0.25 ", GpuRequirement(share=0.25), None),
        ("share=1", GpuRequirement(share=1.0), "num=1:mode=shared:mps=no:j_exclusive=no:gvendor=nvidia:share=1"),
    ],
)
def test_forms(text: str, asked: GpuRequirement, printed: str | None) -> None:
    assert parse_gpu(text) == asked
    assert print_gpu(asked) == (printed or print_gpu(asked))
    assert parse_gpu(print_gpu(asked)) == asked


def test_a_dash_takes_what_the_levels_below_say() -> None:
    assert parse_gpu("-") is parse_gpu(" - ") is None


def test_what_is_implied_counts_as_given() -> None:
    assert read("mode=exclusive_process").given == {"mode", "j_exclusive"}
    assert read("share=0.5").given == {"share", "num"}
    assert read("nvlink=yes").given == {"glink"}


@pytest.mark.parametrize(
    ("text", "position", "words"),
    [
        ("", 0, "an option such as num=1 is wanted"),
        ("num=1:", 6, "an option such as num=1 is wanted"),
        ("num=1::mode=shared", 6, "an option such as num=1 is wanted"),
        ("nums=1", 0, "'nums' is not an option (did you mean num?)"),
        ("x=1", 0, "'x' is not an option; these are: num, mode, mps"),
        ("num", 3, "'=' is wanted after num"),
        ("num=", 4, "such as 2..8, or 0 for none, with /task or /host behind it if need be, not nothing"),
        ("num=0/task", 4, "not '0/task'"),
        ("num=00", 4, "not '00'"),
        ("num=0:mode=shared", 6, "num=0 asks for no GPU, and stands alone"),
        ("gmem=1G:num=0", 8, "num=0 asks for no GPU, and stands alone"),
        ("num=-1", 4, "not '-1'"),
        ("num=1.5", 4, "not '1.5'"),
        ("num=99999999", 4, "num= takes 999999 GPUs at most, not '99999999'"),
        ("num=1..99999999999999999999", 4, "num= takes 999999 GPUs at most, not '1..99999999999999999999'"),
        ("num=1000000/task", 4, "num= takes 999999 GPUs at most, not '1000000/task'"),
        ("num=1..x", 4, "not '1..x'"),
        ("num=1/node", 4, "per task or host"),
        ("num=2..2", 4, "from a number to a larger one, such as 2..8, not '2..2'"),
        ("num=..8", 4, "not '..8'"),
        ("num=0..8", 4, "not '0..8'"),
        ("num=2..8/task", 4, "a range of GPUs is counted per host"),
        ("num=2..8:share=0.5", 9, "num=2..8 takes whichever GPUs of a host are free: it does not go with share="),
        ("mig=1:num=2..8", 6, "it does not go with mig="),
        ("num=1:num=2", 6, "num= is given twice"),
        ("glink=yes:nvlink=no", 10, "glink= is given twice"),
        ("mode=exclusive", 5, "shared or exclusive_process, not 'exclusive'"),
        ("j_exclusive=y", 12, "yes or no"),
        ("mps=maybe", 4, "mps= takes"),
        ("mps=no,shared", 4, "mps=no takes nothing behind it"),
        ("mps=yes,shared,shared", 4, "takes ,shared and ,nocvd"),
        ("gmem=x", 5, "a size such as"),
        ("gmem=0", 5, "a size such as"),
        ("gmodel=", 7, "a model such as"),
        ("gmodel=a b", 7, "a model such as"),
        ("gtile=0", 6, "or '!'"),
        ("mig=5", 4, "1, 2, 3, 4 or 7"),
        ("mig=2/3", 4, "no compute instance of size 3"),
        ("mig=4/3", 4, "no compute instance of size 3"),
        ("mig=7/5", 4, "no compute instance of size 5"),
        ("mig=7/6", 4, "no compute instance of size 6"),
        ("gvendor=intel", 8, "nvidia or amd"),
        ("share=0", 6, "more than 0 and at most 1"),
        ("share=1.01", 6, "more than 0 and at most 1"),
        ("share=1M", 6, "more than 0 and at most 1"),
        ("mode=exclusive_process:j_exclusive=no", 23, "implies j_exclusive=yes"),
        ("gpack=yes:mode=exclusive_process", 10, "gpack=yes is for mode=shared"),
        ("gvendor=amd:mode=exclusive_process", 12, "AMD GPUs have no exclusive_process"),
        ("gvendor=amd:mps=yes", 12, "AMD GPUs have no MPS"),
        ("share=0.5:num=2", 10, "share=0.5 is a part of one GPU: num= is 1"),
        ("mode=exclusive_process:share=0.5", 23, "mode= is shared"),
        ("share=0.5:j_exclusive=yes", 10, "j_exclusive= is no"),
        ("share=0.5:mig=1", 10, "and so is mig="),
        ("mig=1:mode=exclusive_process", 6, "had alone by j_exclusive=yes"),
        ("mig=1:glink=yes", 6, "are not linked"),
        ("gvendor=amd:mig=1", 12, "AMD GPUs have no MIG"),
    ],
)
def test_wrong_texts_say_what_and_where(text: str, position: int, words: str) -> None:
    with pytest.raises(RequirementError) as caught:
        parse_gpu(text)
    assert words in caught.value.detail
    assert (caught.value.kind, caught.value.position) == (BAD_GPU, position)
    assert caught.value.text.startswith("Bad GPU requirement: ")


def test_the_length_is_bounded() -> None:
    with pytest.raises(RequirementError, match="513 characters, 512 are allowed"):
        parse_gpu("n" * (MAX_LENGTH + 1))


def test_the_highest_level_wins_whole_or_option_by_option() -> None:
    job, queue = read("num=2:gmem=1G"), read("num=4:mode=exclusive_process:gmodel=K80")
    cluster = read("gtile=2")
    assert merge_gpu(job, queue, cluster, per_option=False) == job
    assert merge_gpu(None, queue, cluster, per_option=False) == queue
    assert merge_gpu(None, None, None, per_option=True) == GpuRequirement()
    assert merge_gpu(job, queue, cluster, per_option=True) == read(
        "num=2:mode=exclusive_process:gmodel=K80:gmem=1G:gtile=2"
    )
    assert merge_gpu(job, None, per_option=True) == job
    # A share is one of one GPU, whatever number lower levels ask for.
    assert merge_gpu(read("share=0.5"), read("num=4"), per_option=True) == read("share=0.5")
    assert merge_gpu(read("mode=exclusive_process"), read("j_exclusive=no"), per_option=True).j_exclusive


def test_levels_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(RequirementError) as caught:
        merge_gpu(read("share=0.5"), read("mode=exclusive_process"), per_option=True)
    assert "mode= is shared" in caught.value.detail
    assert caught.value.source == "num=1:mode=exclusive_process:j_exclusive=yes:share=0.5"


def test_what_agents_cannot_do_is_named() -> None:
    assert unsupported_by_agent(GpuRequirement()) == ""
    assert unsupported_by_agent(read("mps=yes:mig=3/2")) == unsupported_by_agent(read("mps=per_gpu,shared")) == ""
    assert unsupported_by_agent(read("num=2:mps=per_gpu:block=yes")) == "mps=per_gpu, block=yes"
    assert unsupported_by_agent(read("num=1/task:mps=per_socket")) == "mps=per_socket"
    assert unsupported_by_agent(read("gvendor=amd")) == "gvendor=amd"
    assert unsupported_by_agent(read("num=1:aff=yes:block=no")) == ""
    assert unsupported_by_agent(read("aff=yes:block=yes")) == "block=yes"


def test_a_gpu_resource_in_rusage_is_a_gpu_requirement() -> None:
    items = parse("rusage[ngpus_physical=2/task:gmodel=K80-12G:gmem=1G:gtile='!',ngpus=0.5]").rusage
    most = parse("rusage[ngpus_physical=(1 2):duration=(5)]").rusage[0]
    assert gpu_of(most) == read("num=2")
    assert gpu_of(items[0]) == read("num=2/task:gmodel=K80-12G:gmem=1G:gtile=!")
    with pytest.raises(RequirementError, match="num= takes a whole number"):
        gpu_of(items[1])


@pytest.mark.parametrize(
    ("gmodel", "model", "memory", "matches"),
    [
        ("TeslaV100_PCIE_32GB", "Tesla V100-PCIE-32GB", 32510, True),
        ("Tesla", "Tesla V100-PCIE-32GB", 32510, True),
        ("V100", "Tesla V100-PCIE-32GB", 32510, True),
        ("V100-32G", "Tesla V100-PCIE-32GB", 32510, True),
        ("V100-16G", "Tesla V100-PCIE-32GB", 32510, False),
        ("V10", "Tesla V100-PCIE-32GB", 32510, False),
        ("K80-12G", "Tesla K80", 11441, True),
        ("K80#12G", "Tesla K80", 11441, True),
        ("Tesla#16G", "Tesla K80", 11441, False),
        ("Tesla#16G", "Tesla V100-PCIE-16GB", 16160, True),
        ("#16G", "Tesla V100-PCIE-16GB", 16160, True),
        ("#16G", "Tesla K80", 11441, False),
        ("TeslaC2050_C2070", "Tesla C2050 / C2070", 3072, True),
        ("a100", "NVIDIA A100-SXM4-80GB", 81559, True),
        ("NVIDIAA100", "NVIDIA A100-SXM4-80GB", 81559, True),
        ("PCIE", "Tesla V100-PCIE-32GB", 32510, False),
    ],
)
def test_models(gmodel: str, model: str, memory: float, matches: bool) -> None:
    assert model_matches(gmodel, model, memory) is matches


_options = {
    "num": st.integers(1, 999999).flatmap(lambda n: st.sampled_from([f"{n}", f"{n}/task", f"{n}/host"])),
    "mode": st.sampled_from(["shared", "exclusive_process"]),
    "mps": st.sampled_from(["no", "yes", "per_socket,shared", "per_gpu,nocvd,shared"]),
    "j_exclusive": st.sampled_from(["yes", "no"]),
    "gvendor": st.sampled_from(["nvidia", "amd"]),
    "gmodel": st.sampled_from(["K80", "K80-12G", "TeslaV100_PCIE_32GB", "a/b"]),
    "gmem": st.builds(
        "{}{}".format, st.decimals(0, 10**6, places=3).map("{:f}".format), st.sampled_from(["", "M", "G"])
    ),
    "gtile": st.sampled_from(["1", "!", "'!'"]),
    "glink": st.sampled_from(["yes", "no"]),
    "mig": st.sampled_from(["1", "3/2", "7/7"]),
    "aff": st.sampled_from(["yes", "no"]),
    "block": st.sampled_from(["yes", "no"]),
    "gpack": st.sampled_from(["yes", "no"]),
    "share": st.decimals(0, 1, places=4).map("{:f}".format),
}


@st.composite
def gpu_texts(draw: st.DrawFn) -> str:
    keys = draw(st.lists(st.sampled_from(sorted(_options)), min_size=1, max_size=6, unique=True))
    return ":".join(f"{key}={draw(_options[key])}" for key in keys)


@calm
@given(gpu_texts() | st.text(max_size=40) | st.lists(st.sampled_from([*"=:,/!'\n\x00é1 ", "num", "mig"])).map("".join))
def test_any_text_is_read_and_printed_or_refused_at_a_place_in_it(text: str) -> None:
    try:
        asked = parse_gpu(text)
    except RequirementError as error:
        assert 0 <= error.position <= len(text)
        assert len(error.text.splitlines()) == 1
        assert error.text.isprintable()
    else:
        if asked is not None:
            assert parse_gpu(print_gpu(asked)) == asked
            assert merge_gpu(asked, per_option=True) == merge_gpu(asked, asked, per_option=True) == asked


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("rusage[ngpus_physical=1:gmodel=A100#40G]", "A100#40G"),
        ("rusage[ngpus_physical=1:gmodel=#16G:gmem=1G]", "#16G"),
        ("rusage[ngpus_physical=1:gmodel=Tesla-V100#16G,mem=1]", "Tesla-V100#16G"),
        ("rusage[ngpus_physical=1:gmodel='A100#40G']", "A100#40G"),
        ("rusage[ngpus_physical=1 : gmodel = A100#40G || ngpus_physical=2]", "A100#40G"),
        ("2*{rusage[ngpus_physical=1:gmodel=A100#40G]} + {rusage[mem=1]}", "A100#40G"),
    ],
)
def test_a_model_with_its_memory_stands_wherever_a_model_may(text, model):
    read_once = parse_any(text)
    printed = print_any(read_once)
    assert f"gmodel={model}" in printed and print_any(parse_any(printed)) == printed
    first = next(iter(simple_parts(read_once))).rusage
    assert dict(first[0].gpu_options)["gmodel"] == model


@pytest.mark.parametrize("text", ["select[mem>1#2]", "rusage[mem=1#2]", "rusage[ngpus=1:gmem=1#2]", "#", "gmodel#"])
def test_elsewhere_the_sign_means_nothing(text):
    with pytest.raises(RequirementError, match="'#' cannot be used in the resource requirement section"):
        parse_any(text)


def test_a_model_ends_at_a_blank():
    with pytest.raises(RequirementError):
        parse_any("rusage[ngpus=1:gmodel=A100 #40G]")
