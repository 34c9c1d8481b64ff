"""The examples of docs/configuration.md load, all of them as one configuration, and mean what the text says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from config_texts import BASE

from gsched.config.configuration import check_texts
from gsched.config.grammar.unsupported import (
    REFUSED_CLUSTER,
    REFUSED_CONF,
    REFUSED_LIMIT,
    REFUSED_PARAMS,
    REFUSED_QUEUE,
    WITHOUT_EFFECT_CONF,
    WITHOUT_EFFECT_PARAMS,
)
from gsched.model.config import ClusterConfig
from gsched.model.queues.limit import Amount, Consumers
from gsched.model.queues.window import Window

DOCUMENT = (Path(__file__).parents[3] / "docs" / "configuration.md").read_text()
EXAMPLES = re.findall(r"^```(ls[bf]\.\w+)\n(.*?)^```$", DOCUMENT, re.MULTILINE | re.DOTALL)
HOSTS = "".join(f"{name} ! ! 1 ()\n" for name in ("gpu01", "gpu02", "gpu03", "gpu04", "cpu01"))


def texts() -> dict[str, str]:
    """The examples by file, in a cluster that has the hosts they name."""
    found = {"lsf.conf": BASE["lsf.conf"], "lsf.shared": BASE["lsf.shared"]}
    found["lsf.cluster.c1"] = (
        "Begin ClusterAdmins\nADMINISTRATORS = adm\nEnd ClusterAdmins\n"
        f"Begin Host\nHOSTNAME model type server RESOURCES\n{HOSTS}End Host\n"
        "Begin ResourceMap\nRESOURCENAME LOCATION\nscratch ([default])\nEnd ResourceMap\n"
    )
    for name, text in EXAMPLES:
        found[name] = found.get(name, "") + text
    return found


@pytest.fixture(scope="module")
def config() -> ClusterConfig:
    loaded = check_texts("/conf", texts())
    assert [str(problem) for problem in loaded.problems] == []
    return loaded.required()


def test_there_is_an_example_of_every_file():
    assert {name for name, _ in EXAMPLES} == {
        "lsb.params",
        "lsb.queues",
        "lsb.hosts",
        "lsb.users",
        "lsb.resources",
        "lsb.applications",
        "lsb.serviceclasses",
    }


def test_the_application_profile_of_the_examples(config):
    profile = config.applications["training"]
    assert (profile.run_limit_s, profile.gpu_req, profile.requeue_exit_values) == (
        86400,
        "num=1:mode=exclusive_process",
        "99",
    )
    assert profile.post_exec == "rm -rf /scratch/train.$LSB_JOBID"


def test_the_queues_of_the_examples(config):
    queues = config.queues
    assert list(queues) == ["normal", "short", "night", "urgent", "idle", "licensed"]
    assert queues["normal"].host_levels == {"gpu01": 2, "gpu02": 2}
    assert queues["normal"].hosts == ("gpu01", "gpu02", "gpu03", "gpu04", "cpu01")
    assert queues["normal"].excluded_users == ("visitor",)
    assert queues["short"].limits["MEMLIMIT"].default == 4096
    assert queues["night"].run_window[1] == Window(5 * 1440 + 1200, 1440 + 480, True)
    assert queues["urgent"].reserve_s == 600
    assert queues["urgent"].users == ("ann", "bob", "eve", "tom")
    assert queues["licensed"].controls.suspend == "SIGTSTP"
    assert queues["idle"].preemption.preemptable_by == ()


def test_the_groups_of_the_examples(config):
    assert config.host_groups["rest"] == ("gpu03", "gpu04", "cpu01")
    assert config.compute_units == {"rack": {"rack1": ("gpu01", "gpu02"), "rack2": ("gpu03", "gpu04")}}
    assert config.hosts["gpu02"].max_slots == 16
    assert config.users["students@"].max_pending == 100


def test_the_limits_of_the_examples(config):
    by_name = {limit.name: limit for limit in config.limits}
    assert by_name["gpus_of_one_user"].users == Consumers((), ("ann",), True)
    assert by_name["physics_by_day"].amounts == {"ngpus": (Amount(8, (Window(480, 1200),)),)}
    assert by_name["front"].amounts == {"mem": (Amount(262144),), "lic": (Amount(2),)}
    assert config.reservation_method == {"lic": "job", "ngpus_physical": "task"}


@pytest.mark.parametrize(
    "module", ["lsf_conf", "lsb_params", "lsb_queues", "job_limits", "lsb_resources", "queue_parameters", "retries"]
)
def test_every_parameter_that_is_read_is_told_of(module):
    told = set(re.findall(r"`([A-Za-z_/0-9]+)`", DOCUMENT))
    parameters = _parameters(module)
    assert len(parameters) > 3
    assert sorted(parameters - told) == []


def _parameters(module: str) -> set[str]:
    """Names in capitals that a module takes."""
    (path,) = (Path(__file__).parents[3] / "gsched" / "config").rglob(f"{module}.py")
    source = path.read_text()
    names = set(re.findall(r'take\(\s*"([A-Z_/]+)"', source))
    names |= set(re.findall(r'^ +"([A-Z]{3,})": [(_t]', source, re.MULTILINE))
    return names | set(re.findall(r'QueueParameter\("([A-Z_]+)"', source))


@pytest.mark.parametrize(
    ("heading", "unused"),
    [
        ("lsf.conf", {**REFUSED_CONF, **WITHOUT_EFFECT_CONF}),
        ("lsf.cluster.NAME", REFUSED_CLUSTER),
        ("lsb.params", {**REFUSED_PARAMS, **WITHOUT_EFFECT_PARAMS}),
        ("lsb.queues", REFUSED_QUEUE),
        ("lsb.resources", REFUSED_LIMIT),
    ],
)
def test_what_is_not_supported_is_in_no_table(heading, unused):
    chapter = DOCUMENT.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    first_cells = re.findall(r"^\| ([^|]*) \|", chapter, re.MULTILINE)
    told = {name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)}
    assert len(told) > 3
    assert sorted(told & set(unused)) == []
