"""Tests of inventories of simulated GPUs."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.base.errors import BadRequest, Conflict
from gsched.model.hosts.host import ComputeMode, GpuProcess, MigDevice
from gsched.probe.simulated.inventory import change, parse_sim_spec, read_inventory, write_inventory
from gsched.probe.simulated.inventory_entry import simulated_gpu


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_inventory(tmp_path / "sim" / "h1.json", parse_sim_spec("4:exclusive_process", "h1"))
    return tmp_path / "sim" / "h1.json"


def test_spec_with_a_mode() -> None:
    gpus = parse_sim_spec("4:exclusive_process", "h1")
    assert [gpu.index for gpu in gpus] == [0, 1, 2, 3]
    assert {gpu.mode for gpu in gpus} == {ComputeMode.EXCLUSIVE_PROCESS}
    assert {(gpu.model, gpu.memory_mib) for gpu in gpus} == {("Tesla K80", 11441)}
    assert len({gpu.uuid for gpu in gpus}) == len({gpu.pci_bus_id for gpu in gpus}) == 4


@pytest.mark.parametrize(("spec", "count"), [("0", 0), ("3", 3), ("2:shared", 2), ("1024:default", 1024)])
def test_spec_of_shared_gpus(spec: str, count: int) -> None:
    gpus = parse_sim_spec(spec, "h1")
    assert len(gpus) == count
    assert all(gpu.mode is ComputeMode.DEFAULT for gpu in gpus)


def test_uuid_is_the_same_every_time_and_another_on_another_host() -> None:
    assert parse_sim_spec("2", "h1") == parse_sim_spec("2", "h1")
    assert parse_sim_spec("1", "h1")[0].uuid != parse_sim_spec("1", "h2")[0].uuid
    assert simulated_gpu("h1", 1).uuid == parse_sim_spec("2", "h1")[1].uuid


def test_gpus_of_the_default_model_have_its_compute_capability(tmp_path: Path) -> None:
    """select[gpu_maxfactor>0] waited for ever."""
    assert [gpu.factor for gpu in parse_sim_spec("2:shared", "h1")] == [3.7, 3.7]
    inventory = tmp_path / "h1.json"
    inventory.write_text('[{}, {"model": "H100"}, {"model": "H100", "factor": 9.0}]')
    assert [gpu.factor for gpu in read_inventory(inventory, "h1")] == [3.7, None, 9.0]


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ("", "says no GPUs"),
        ("-1", "says no GPUs"),
        ("four", "says no GPUs"),
        ("4:", "says no GPUs"),
        ("٤", "says no GPUs"),
        ("4:turbo", "'turbo' is no compute mode"),
        ("1025", "more than 1024 GPUs"),
        ("99999999999999999999", "more than 1024 GPUs"),
        ("missing.json", "missing.json: cannot be read: No such file"),
        ("/", "cannot be read: Is a directory"),
    ],
)
def test_spec_that_cannot_be_used_is_refused_in_words(spec: str, text: str) -> None:
    with pytest.raises(BadRequest, match=text):
        parse_sim_spec(spec, "h1")


def test_spec_may_name_an_inventory(path: Path) -> None:
    assert parse_sim_spec(str(path), "h1") == parse_sim_spec("4:exclusive_process", "h1")


def test_short_inventory_is_filled_up(tmp_path: Path) -> None:
    file = tmp_path / "h1.json"
    file.write_text('[{}, {"model": "H100", "memory_mib": 81559, "compute_mode": null, "uuid": "GPU-x"}]')
    first, second = read_inventory(file, "h1")
    assert first == simulated_gpu("h1", 0)
    assert (second.uuid, second.model, second.mode, second.minor) == ("GPU-x", "H100", None, 1)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('[{"index": 0},\n {"index" 1}]', r"h1.json:2:11: no JSON: Expecting ':' delimiter"),
        ("", "h1.json:1:1: no JSON"),
        ("[" * 100_000, "h1.json: no JSON"),
        ("{}", "h1.json: a list of GPUs is wanted"),
        ('[{}, {"memory_mib": "big"}]', "h1.json: entry 2: Expected `int | null`, got `str` - at `memory_mib`"),
        ('[{"modell": "x"}]', "h1.json: entry 1: Object contains unknown field `modell`"),
        ('[{"compute_mode": "fast"}]', "h1.json: entry 1: 'fast' is no compute mode"),
        ('[{}, {"index": 0}]', "h1.json: entry 2: index 0 is listed twice"),
        ('[{"uuid": "GPU-a"}, {"uuid": "GPU-a"}]', "h1.json: entry 2: uuid GPU-a is listed twice"),
        ('[{"index": -1}]', "h1.json: entry 1: index -1 is not between"),
        ('[{"utilization_percent": 101}]', "h1.json: entry 1: utilization_percent 101 is not between"),
        ('[{"problem": "a\\nb"}]', "h1.json: entry 1: problem: one line"),
        ("[" + ",".join(["{}"] * 1025) + "]", "h1.json: lists more than 1024 GPUs"),
    ],
)
def test_bad_inventory_names_file_and_position(tmp_path: Path, text: str, where: str) -> None:
    (tmp_path / "h1.json").write_text(text)
    with pytest.raises(BadRequest) as caught:
        read_inventory(tmp_path / "h1.json", "h1")
    assert caught.match(where.replace("|", r"\|"))
    assert "\n" not in caught.value.text


@given(st.binary(max_size=300) | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_any_file_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes | str) -> None:
    file = tmp_path_factory.getbasetemp() / "any.json"
    file.write_bytes(content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content)
    try:
        read_inventory(file, "h1")
    except BadRequest as problem:
        assert "any.json" in problem.text


def test_change_of_some_gpus(path: Path) -> None:
    before = read_inventory(path, "h1")
    after = change(path, "h1", [0, 2], {"compute_mode": "shared", "temperature_c": "90", "used_mib": "-"})
    assert after == read_inventory(path, "h1")
    assert [gpu.mode for gpu in after] == [
        ComputeMode.DEFAULT,
        ComputeMode.EXCLUSIVE_PROCESS,
        ComputeMode.DEFAULT,
        ComputeMode.EXCLUSIVE_PROCESS,
    ]
    assert (after[2].temperature_c, after[2].used_mib) == (90, None)
    assert (after[1], after[3]) == (before[1], before[3])
    assert [gpu.uuid for gpu in after] == [gpu.uuid for gpu in before]


def test_problem_is_set_and_cleared(path: Path) -> None:
    assert change(path, "h1", [1], {"problem": "fell off the bus"})[1].problem == "fell off the bus"
    assert change(path, "h1", [1], {"problem": ""})[1].problem == ""


@pytest.mark.parametrize(
    ("indexes", "settings", "text"),
    [
        ([1, 7], {"used_mib": "1"}, r"there is no GPU 7 \(known: 0, 1, 2, 3\)"),
        ([0], {"colour": "red"}, "'colour' cannot be set for a simulated GPU"),
        ([0], {"compute_mode": "fast"}, "'fast' is no compute mode"),
        ([0], {"used_mib": "1.5"}, "used_mib=1.5: a whole number"),
        ([0], {"used_mib": "-5"}, "used_mib -5 is not between"),
        ([0], {"utilization_percent": "101"}, "utilization_percent 101 is not between 0 and 100"),
        ([0], {"problem": "a\tb"}, "problem: one line"),
    ],
)
def test_change_that_makes_no_sense_changes_nothing(
    path: Path, indexes: list[int], settings: dict[str, str], text: str
) -> None:
    before = path.read_bytes()
    with pytest.raises(BadRequest, match=text):
        change(path, "h1", indexes, settings)
    assert path.read_bytes() == before


def test_change_of_a_missing_inventory(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"h9\.json: cannot be read"):
        change(tmp_path / "h9.json", "h9", [0], {"used_mib": "1"})
    with pytest.raises(Conflict, match=r"h9\.json: cannot be changed"):
        change(tmp_path / "nowhere" / "h9.json", "h9", [0], {"used_mib": "1"})


def test_writing_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Conflict, match=r"h1\.json: cannot be written"):
        write_inventory(tmp_path / "file" / "h1.json", ())


def test_writers_at_the_same_time_lose_nothing(path: Path) -> None:
    def keep_changing(index: int) -> None:
        for value in range(20):
            change(path, "h1", [index], {"used_mib": str(value)})

    threads = [threading.Thread(target=keep_changing, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert len(read_inventory(path, "h1")) == 4  # never half a file
    assert [gpu.used_mib for gpu in read_inventory(path, "h1")] == [19, 19, 19, 19]


def test_replacing_keeps_the_mode_of_the_file_and_leaves_nothing_behind(path: Path) -> None:
    path.chmod(0o640)
    change(path, "h1", [0], {"used_mib": "1"})
    assert path.stat().st_mode & 0o777 == 0o640
    assert sorted(file.name for file in path.parent.iterdir()) == [".h1.json.lock", "h1.json"]


def test_everything_that_a_file_may_say_of_a_gpu_survives_a_change(tmp_path: Path) -> None:
    path = tmp_path / "h1.json"
    path.write_text(
        '[{"index": 3, "minor": 0, "numa": 1, "links": ["GPU-b"], "reserved_mib": 600, "power_w": 70, "ecc_errors": 1,'
        ' "pstate": 8, "memory_utilization_percent": 4, "processes": [{"pid": 7, "user": "ann", "used_mib": 5}],'
        ' "mig": true, "mig_devices": [{"uuid": "MIG-a", "profile": "1g.10gb", "gpu_instance": 7}]}, {"index": 4}]'
    )
    gpu, plain = read_inventory(path, "h1")
    assert (gpu.minor, gpu.numa, gpu.reserved_mib, gpu.power_w, gpu.ecc_errors, gpu.pstate) == (0, 1, 600, 70, 1, 8)
    assert (gpu.process_count, gpu.processes) == (1, (GpuProcess(pid=7, user="ann", used_mib=5),))
    assert (gpu.mig, gpu.mig_devices) == (True, (MigDevice(uuid="MIG-a", profile="1g.10gb", gpu_instance=7),))
    assert (plain.process_count, plain.mig, plain.power_w) == (None, None, None)
    (changed, other) = change(path, "h1", [3], {"power_w": "300", "ecc_errors": "-"})
    assert (changed.power_w, changed.ecc_errors) == (300, None)
    assert read_inventory(path, "h1") == (changed, other)
    assert (changed.processes, changed.mig_devices, other) == (gpu.processes, gpu.mig_devices, plain)


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ('{"processes": [{"pid": 0}]}', "pid 0 is not between 1 and"),
        ('{"processes": [{"pid": 1, "job": "17.1"}]}', "unknown field `job`"),
        ('{"pstate": 16}', "pstate 16 is not between 0 and 15"),
        ('{"mig_devices": [{"uuid": "a\\nb"}]}', "uuid: one line of at most"),
        ('{"mig_devices": [{"uuid": ""}]}', "mig_devices: a part without uuid"),
        ('{}, {"mig_devices": [{"uuid": "a"}, {"uuid": "a"}]}', "entry 2: uuid a is listed twice"),
        ('{"uuid": "a"}, {"mig_devices": [{"uuid": "a"}]}', "entry 2: uuid a is listed twice"),
        ('{"processes": [' + ", ".join(['{"pid": 1}'] * 65) + "]}", "processes: more than 64"),
    ],
)
def test_what_cannot_be_of_processes_and_parts_is_refused(tmp_path: Path, entry: str, why: str) -> None:
    (tmp_path / "h1.json").write_text(f"[{entry}]")
    with pytest.raises(BadRequest) as caught:
        read_inventory(tmp_path / "h1.json", "h1")
    assert why in caught.value.text
