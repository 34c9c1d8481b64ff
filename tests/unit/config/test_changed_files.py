"""`--set`: one value of the configuration's texts is another, and everything else stays as it is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from gsched.base.errors import BadRequest, ConfigError
from gsched.config.changed_files import Setting, parse_setting, with_setting
from gsched.config.template import NewConfiguration, write_private
from gsched.model.config import Locations
from gsched.sim.cluster_file import hosts_of_words
from gsched.sim.sim_config import simulation_config

QUEUES = """\
Begin Queue
QUEUE_NAME = normal
PRIORITY = 30 # the default
End Queue

Begin Queue
QUEUE_NAME = short  # for the impatient
HOSTS = a \\
        b
End Queue
"""


def test_forms() -> None:
    assert parse_setting("lsb.queues:short.PRIORITY=60") == Setting(
        "lsb.queues:short.PRIORITY=60", "lsb.queues", "short", "PRIORITY", "60"
    )
    assert parse_setting("GPU_PLACEMENT=scarce").file == "lsb.params"
    assert parse_setting("lsb.params:Parameters.A= b = c").value == "b = c"
    assert parse_setting("lsf.conf:LSF_UNIT_FOR_LIMITS=GB").file == "lsf.conf"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("PRIORITY", "wanted is"),
        ("=1", "wanted is"),
        ("A=1\nB=2", "wanted is"),
        ("lsb.queues:PRIORITY=1", "which Queue? lsb.queues:NAME.PRIORITY=VALUE"),
        ("lsb.hosts:h1.MXJ=1", "values of lsb.hosts cannot be changed here"),
        ("lsb.params:short.A=1", "has no sections with names"),
    ],
)
def test_what_is_no_setting(text: str, said: str) -> None:
    with pytest.raises(BadRequest, match="--set") as error:
        parse_setting(text)
    assert said in error.value.text and "\n" not in error.value.text


def test_a_line_is_replaced_or_added() -> None:
    other = with_setting(QUEUES, parse_setting("lsb.queues:normal.PRIORITY=7"))
    assert other == QUEUES.replace("PRIORITY = 30 # the default", "PRIORITY = 7")
    added = with_setting(QUEUES, parse_setting("lsb.queues:short.PRIORITY=7"))
    assert added == QUEUES.replace("        b\n", "        b\nPRIORITY = 7\n")
    joined = with_setting(QUEUES, parse_setting("lsb.queues:short.HOSTS=c"))
    assert joined == QUEUES.replace("HOSTS = a \\\n        b\n", "HOSTS = c\n")


def test_section_that_there_is_not() -> None:
    with pytest.raises(BadRequest, match="has no Queue long; there are normal, short"):
        with_setting(QUEUES, parse_setting("lsb.queues:long.PRIORITY=7"))


@pytest.mark.parametrize("setting", ["lsb.queues:short.PRIORTY=60", "GPU_PLACEMENT=tight", "CLEAN_PERIOD=-1"])
def test_what_the_files_do_not_allow_is_one_line_that_names_the_setting(setting: str) -> None:
    with pytest.raises(BadRequest) as error:
        simulation_config(None, hosts_of_words("1x0", "h"), [parse_setting(setting)])
    assert not isinstance(error.value, ConfigError)
    assert error.value.text.startswith(f"--set {setting}: lsb.") and "\n" not in error.value.text


def test_folder_is_read_and_not_written(tmp_path: Path) -> None:
    names = ("conf_dir", "state_dir", "log_dir", "server_dir", "run_dir", "spool_dir")
    folders = Locations(**{name: f"/somewhere/{name}" for name in names})
    new = NewConfiguration(cluster="c", hosts=["h001"], slots=4, folders=folders, gpu_provider="none")
    write_private(str(tmp_path / "conf"), new)
    before = {path.name: path.read_bytes() for path in (tmp_path / "conf").glob("ls*.*")}
    hosts = hosts_of_words("2x0:3", "h")
    config = simulation_config(str(tmp_path / "conf"), hosts, [parse_setting("lsb.queues:short.PRIORITY=60")])
    assert (config.queues["short"].priority, list(config.hosts)) == (60, ["h001", "h002"])
    assert config.hosts["h001"].max_slots == 3
    assert {path.name: path.read_bytes() for path in (tmp_path / "conf").glob("ls*.*")} == before
