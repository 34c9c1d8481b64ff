"""The walk-through: elim.gpu, and any other program that prints its format."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from live_cluster import PATIENCE_S, Cluster

LINE = "4 ngpus 4 ngpus_shared 0 ngpus_excl_t 0 ngpus_excl_p 4\n"
LICENSE = """\
#!/bin/sh
echo "$$ $LSF_RESOURCES" >> "$LSF_ENVDIR/../said"
while :; do cat "$LSF_ENVDIR/../value"; sleep 0.1; done
"""


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster]) -> Cluster:
    return module_cluster("--sim-gpus", "4:exclusive_process")


class ElimGpu:
    """A running elim.gpu and what it prints."""

    def __init__(self, cluster: Cluster, interval: str = "0.2", resources: str = "") -> None:
        env = {**cluster.env, "GSCHED_GPU_INTERVAL": interval, "LSF_RESOURCES": resources}
        self.process = subprocess.Popen(
            ["elim.gpu"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def interrupt(self) -> tuple[int, str]:
        """Ctrl-C; returns the exit code and all that it has said on standard error."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(PATIENCE_S), self.process.communicate()[1]


@pytest.fixture
def elim_gpu(cluster: Cluster) -> Iterator[Callable[..., ElimGpu]]:
    made: list[ElimGpu] = []

    def start(**words: str) -> ElimGpu:
        made.append(ElimGpu(cluster, **words))
        return made[-1]

    yield start
    for elim in made:
        elim.process.kill()
        elim.process.communicate()


def set_modes(cluster: Cluster, mode: str) -> None:
    cluster.run("gsched", "sim-gpu", "0-3", f"compute_mode={mode}")


def load_of(cluster: Cluster, name: str) -> tuple[str, str]:
    """Total and Reserved of a column of `ghosts -l`."""
    lines = cluster.run("ghosts", "-l").stdout.splitlines()
    for number, line in enumerate(lines):
        if re.search(rf"(^|\s){name}(\s|$)", line) and lines[number + 1].startswith(" Total"):
            end = re.search(rf"(?<!\S){name}(?!\S)", line).end()  # type: ignore[union-attr]
            total, reserved = (lines[number + below][:end].split()[-1] for below in (1, 2))
            return total, reserved
    return "", ""


def test_elim_gpu_prints_the_counts_every_interval_until_interrupted(elim_gpu: Callable[..., ElimGpu]) -> None:
    began = time.monotonic()
    elim = elim_gpu(interval="0.3")
    assert [elim.line() for _ in range(4)] == [LINE] * 4
    assert time.monotonic() - began > 0.8
    assert elim.interrupt() == (130, "")


def test_the_fifth_pair_when_lsf_resources_names_it(elim_gpu: Callable[..., ElimGpu]) -> None:
    elim = elim_gpu(resources="ngpus ngpuprohibited ngpus_excl_p")
    assert elim.line() == "5 " + LINE[2:-1] + " ngpuprohibited 0\n"


def test_changing_compute_modes_moves_the_counts(cluster: Cluster, elim_gpu: Callable[..., ElimGpu]) -> None:
    elim = elim_gpu(resources="ngpuprohibited")
    counts = {
        "default": "5 ngpus 4 ngpus_shared 4 ngpus_excl_t 0 ngpus_excl_p 0 ngpuprohibited 0\n",
        "prohibited": "5 ngpus 4 ngpus_shared 0 ngpus_excl_t 0 ngpus_excl_p 0 ngpuprohibited 4\n",
        "exclusive_process": "5 ngpus 4 ngpus_shared 0 ngpus_excl_t 0 ngpus_excl_p 4 ngpuprohibited 0\n",
    }
    shown = {
        "default": {"ngpus_shared": "4.0", "ngpus_excl_p": "0.0", "ngpuprohibited": "0.0"},
        "prohibited": {"ngpus_shared": "0.0", "ngpus_excl_p": "0.0", "ngpuprohibited": "4.0"},
        "exclusive_process": {"ngpus_shared": "0.0", "ngpus_excl_p": "4.0", "ngpuprohibited": "0.0"},
    }
    assert elim.line() == counts["exclusive_process"]
    for mode, line in counts.items():
        set_modes(cluster, mode)
        while (said := elim.line()) != line:  # lines of before may be on their way
            assert said, "it has ended"
        cluster.until(
            lambda mode=mode: {name: load_of(cluster, name)[0] for name in shown[mode]} == shown[mode],  # type: ignore[misc]
            f"ghosts -l does not show {mode}",
        )


@pytest.fixture(scope="module")
def license_elim(cluster: Cluster) -> Path:
    """The resource `license`, reported each second by a shell script; returns the file with what it prints."""
    value = cluster.folder / "value"
    value.write_text("2 license 7 nosuch 3\n")
    script = cluster.folder / "etc" / "elim.license"
    script.write_text(LICENSE)
    script.chmod(0o755)
    shared, map_file = cluster.conf / "lsf.shared", cluster.conf / "lsf.cluster.private"
    with shared.open("a") as file:
        file.write(
            "Begin Resource\nRESOURCENAME TYPE INTERVAL INCREASING CONSUMABLE DESCRIPTION\n"
            "license Numeric 1 N Y (licences)\nEnd Resource\n"
        )
    with map_file.open("a") as file:
        file.write("Begin ResourceMap\nRESOURCENAME LOCATION\nlicense ([default])\nEnd ResourceMap\n")
    cluster.run("gadmin", "reconfig")
    return value


def runs(cluster: Cluster) -> list[int]:
    """Process ids of the elim's runs so far."""
    try:
        return [int(line.split()[0]) for line in (cluster.folder / "said").read_text().splitlines()]
    except FileNotFoundError:
        return []


def notes(cluster: Cluster) -> str:
    return cluster.run("ghosts", "-l").stdout.partition("NOTES:")[2]


def shows(cluster: Cluster, total: str, reserved: str) -> None:
    cluster.until(lambda: load_of(cluster, "license") == (total, reserved), f"license is not {total} {reserved}")


@pytest.mark.smoke
def test_a_script_in_the_server_folder_is_an_elim(cluster: Cluster, license_elim: Path) -> None:
    shows(cluster, "7.0", "0.0")
    names = (cluster.folder / "said").read_text().split()
    assert {"ngpus", "ngpus_shared", "ngpus_excl_t", "ngpuprohibited", "ngpus_excl_p", "license"} == set(names[1:7])
    assert "elim.license: 'nosuch' is not a resource of this host, ignored" in notes(cluster)
    job = cluster.submit("-R", "select[license>=5] rusage[license=3]", "sleep", "600")
    shows(cluster, "4.0", "3.0")
    cluster.run("gkill", str(job))
    cluster.wait(job)
    shows(cluster, "7.0", "0.0")
    license_elim.write_text("1 license 2\n")
    shows(cluster, "2.0", "0.0")


def test_elim_gpu_runs_under_the_agent_and_gives_no_complaint(cluster: Cluster, license_elim: Path) -> None:
    assert "elim.gpu" not in notes(cluster)


def test_an_elim_that_dies_is_started_again(cluster: Cluster, license_elim: Path) -> None:
    license_elim.write_text("1 license 5\n")
    shows(cluster, "5.0", "0.0")
    before = runs(cluster)
    os.kill(before[-1], signal.SIGKILL)
    cluster.until(lambda: len(runs(cluster)) == len(before) + 1, "it is not started again")
    shows(cluster, "5.0", "0.0")


@pytest.mark.smoke
def test_rubbish_makes_the_value_unknown_and_says_so(cluster: Cluster, license_elim: Path) -> None:
    license_elim.write_text("1 license 5\n")
    shows(cluster, "5.0", "0.0")
    license_elim.write_text("three blind mice\n")
    shows(cluster, "-", "-")
    cluster.until(lambda: "elim.license: " in notes(cluster), "no note about rubbish")
    job = cluster.submit("-R", "rusage[license=1]", "true")
    assert "license" in cluster.why_pending(job)
    assert "license" in cluster.run("gjobs", "-p", str(job)).stdout.splitlines()[-2]
    license_elim.write_text("1 license 5\n")
    # It was started again and again meanwhile, more and more rarely.
    assert [view.state for view in cluster.wait(job)] == ["DONE"]


def test_silence_of_two_intervals_makes_the_value_unknown(cluster: Cluster, license_elim: Path) -> None:
    license_elim.write_text("1 license 5\n")
    shows(cluster, "5.0", "0.0")
    license_elim.write_text("")
    shows(cluster, "-", "-")
    said = "elim.license: has said nothing for more than 2 s, so license may be unknown"
    cluster.until(lambda: said in notes(cluster), "it is not named")
    license_elim.write_text("1 license 6\n")
    shows(cluster, "6.0", "0.0")
    cluster.until(lambda: "has said nothing" not in notes(cluster), "it is still called silent")


def test_an_elim_that_stays_silent_is_started_again_where_lsf_cluster_says_so(
    cluster: Cluster, license_elim: Path
) -> None:
    license_elim.write_text("")
    with cluster.files_as_they_are():
        limits = "LSF_ELIM_BLOCKTIME = 2\nLSF_ELIM_RESTARTS = 1\n"
        cluster.configure(**{"lsf_cluster.private": f"Begin Parameters\n{limits}End Parameters\n"})
        before = len(runs(cluster))
        cluster.until(lambda: "elim.license: has completed no report" in notes(cluster), "it is not named")
        given_up = (
            "elim.license: has completed no report for 2 s (LSF_ELIM_BLOCKTIME); not started again before a reconfig"
        )
        cluster.until(lambda: given_up in notes(cluster).replace("\n" + 21 * " ", ""), "it is not given up")
        assert len(runs(cluster)) in (before + 1, before + 2), "the first of these runs may have begun before"
    license_elim.write_text("1 license 6\n")
    cluster.until(lambda: load_of(cluster, "license") == ("6.0", "0.0"), "it does not run again")


def test_rare_lines_are_read_though_they_come_in_pieces(cluster: Cluster, license_elim: Path) -> None:
    script = cluster.folder / "etc" / "elim.license"
    script.write_text(
        "#!/bin/sh\nwhile :; do printf '1 lic'; sleep 0.2; printf 'ense\\n4'; printf '2\\n'; sleep 0.3; done\n"
    )
    cluster.run("gadmin", "reconfig")  # a changed program is started again
    shows(cluster, "42.0", "0.0")
