#!/usr/bin/env python3
"""The walk-through that `make demo` plays: from GPUs that nobody counts to jobs that never get in each other's way.

It starts a private cluster in a temporary folder, runs real commands, shows what they print, checks everything it says,
and removes what it made. Exit code 0 if all of it was so, 1 with the sentence that was not, 128 + signal when it is
interrupted. Real GPUs are used where NVML finds some, and their settings are never touched; else GPUs are simulated,
as they are with --simulated.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import shutil
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from stage import BIN, Interrupted, NotSo, Screen, Stage

TRAIN = Path(__file__).resolve().with_name("train.py")
SIMULATED = 4
SLOTS = 16
WAIT_S = 3.0
TRAIN_S = 2.0
MODES = {"ngpus_excl_p": "EXCLUSIVE_PROCESS", "ngpus_excl_t": "EXCLUSIVE_THREAD", "ngpus_shared": "shared (Default)"}
COUNTERS = "ghosts -l | grep -m1 -A2 ngpus_excl_p"
MASTER_PID = "gsched status | awk '/^master/ {print +$4}'"


@dataclass(frozen=True)
class Gpus:
    """The GPUs that the story is told with: those of the mode that most of the machine's have."""

    counter: str
    count: int
    total: int
    is_real: bool
    has_cuda: bool

    @property
    def is_exclusive(self) -> bool:
        return self.counter != "ngpus_shared"

    @property
    def half(self) -> int:
        """As many as leave too few for a third job of the kind."""
        return (self.count + 1) // 2

    def claim(self, count: int) -> str:
        """The -R option that asks for `count` of them."""
        return f'-R "select[ngpus>0] rusage[{self.counter}={count}]"'


# -- reading what commands print --------------------------------------------------------------------------------------


def counts(text: str) -> dict[str, tuple[str, str]]:
    """Resource -> (Total, Reserved), as `ghosts -l` shows them."""
    found: dict[str, tuple[str, str]] = {}
    lines = [line.split() for line in text.splitlines()]
    for names, total, reserved in zip(lines, lines[1:], lines[2:], strict=False):
        if total[:1] == ["Total"] and reserved[:1] == ["Reserved"]:
            found.update(zip(names, zip(total[1:], reserved[1:], strict=False), strict=False))
    return found


def state(stage: Stage, job: int) -> str:
    """STAT of a job."""
    return stage.ask(f"gjobs -a -noheader -o stat {job}")


def wait_for(stage: Stage, job: int, wanted: str) -> None:
    """Wait until the job's STAT is `wanted`."""
    stage.until(lambda: state(stage, job) == wanted, f"job {job} is {wanted}")


def submit(stage: Stage, words: str) -> int:
    """gsub, shown; returns the job's number."""
    found = re.search(r"Job <(\d+)> is submitted", stage.run(f"gsub {words}"))
    if found is None:
        raise NotSo("gsub names the job it has submitted")
    return int(found[1])


def end_training(stage: Stage, *jobs: int) -> None:
    """Let the jobs' training come to its end and wait for it."""
    for job in jobs:
        (stage.work / f"stop.{job}").touch()
    for job in jobs:
        wait_for(stage, job, "DONE")


def devices(stage: Stage, job: int, *, show: bool = True) -> set[str]:
    """GPUs of a job, from the message that `gjobs -l` shows."""
    command = f"gjobs -l {job} | grep gpus="
    stage.until(lambda: stage.quietly(command)[0] == 0, f"job {job} has its GPUs")
    found = re.search(r":gpus=([0-9,]+);", stage.run(command) if show else stage.ask(command))
    return set(found[1].split(",")) if found else set()


def check_counter(stage: Stage, gpus: Gpus, held: int) -> None:
    """Show the GPU counters; Total and Reserved must be what follows from `held` GPUs in use."""
    pair = counts(stage.run(COUNTERS)).get(gpus.counter)
    wanted = (f"{gpus.count - held}.0", f"{held}.0")
    stage.expect(pair == wanted, f"{gpus.counter}: Total {wanted[0]}, Reserved {wanted[1]} (it was {pair})")


# -- the story --------------------------------------------------------------------------------------------------------


def find_gpus(stage: Stage, *, simulate: bool) -> Gpus:
    """Ask NVML through elim.gpu; without NVIDIA GPUs, or where none may be used, the GPUs are simulated."""
    simulated = Gpus("ngpus_excl_p", SIMULATED, SIMULATED, is_real=False, has_cuda=False)
    if simulate:
        return simulated
    code, output = stage.quietly("elim.gpu --once", {"GSCHED_GPU_PROVIDER": "nvml"})
    words = output.splitlines()[-1].split() if code == 0 and output else []
    values = {name: int(value) for name, value in zip(words[1::2], words[2::2], strict=False) if value.isdigit()}
    counter = max(MODES, key=lambda name: values.get(name, 0))
    if not values.get(counter):
        return simulated
    try:
        has_cuda = ctypes.CDLL("libcuda.so.1").cuInit(0) == 0
    except OSError:
        has_cuda = False
    return Gpus(counter, values[counter], values["ngpus"], is_real=True, has_cuda=has_cuda)


def open_stage(stage: Stage, *, simulate: bool) -> Gpus:
    """The training program, the cluster, and which GPUs there are."""
    gpus = find_gpus(stage, simulate=simulate)
    if gpus.is_real:
        which = f"{gpus.count} {MODES[gpus.counter]} GPU{'s are' if gpus.count > 1 else ' is'}"
        stage.screen.say(f"This machine's {which} used; no setting is changed.")
    else:
        why = "As you wish" if simulate else "No usable NVIDIA GPU was found"
        stage.screen.say(f"{why}: the {gpus.count} GPUs of this walk-through are SIMULATED.")
    shutil.copy(TRAIN, stage.work)
    for name, options in (("train.sh", ""), ("train_many.sh", f" --gpus {gpus.half}"), ("train_cpu.sh", " --gpus 0")):
        script = stage.work / name
        script.write_text(f"#!/bin/sh\npython train.py{options}\n")
        script.chmod(0o755)
    if not gpus.has_cuda:
        pretended = stage.work / "gpus"
        pretended.mkdir()
        for index in range(gpus.total):
            (pretended / str(index)).touch()
        stage.env |= {"TRAIN_PRETEND": str(pretended), "TRAIN_SHARED": "N" if gpus.is_exclusive else "Y"}
    option = "" if gpus.is_real else f"--sim-gpus {gpus.count}:exclusive_process "
    # GSCHED_ENVDIR says where the cluster is, so no --dir is needed.
    stage.run(f"gsched up {option}--bare | head -2")
    if gpus.is_real:  # else as many slots as CPUs
        stage.screen.say(f"The host gets {SLOTS} slots, so that GPUs are what runs short.")
        stage.run(f"sed -i 's/^default .*/default {SLOTS} ()/' $GSCHED_ENVDIR/lsb.hosts")
    return gpus


def unseen(stage: Stage, gpus: Gpus) -> None:
    """Jobs that ask for no GPU, on a cluster that knows of none."""
    stage.screen.title("1. GPUs that the scheduler does not see")
    if gpus.count != gpus.total:
        stage.screen.say("Left out: with GPUs in several compute modes nobody knows which one a program takes first.")
        return
    stage.screen.say(
        "The cluster counts slots only. gsched hides GPUs from jobs that ask for none; here they are let through."
    )
    stage.run("sed -i 's/^GPU_UNREQUESTED = hide/GPU_UNREQUESTED = allow/' $GSCHED_ENVDIR/lsb.params")
    stage.ask("gadmin reconfig")
    first = submit(stage, "./train.sh")
    stage.until(lambda: "Iteration" in stage.quietly(f"gpeek {first}")[1], f"job {first} trains")
    second = submit(stage, "./train.sh")
    if not gpus.is_exclusive:
        stage.until(lambda: "Iteration" in stage.quietly(f"gpeek {second}")[1], f"job {second} trains")
        taken = [stage.run(f"gpeek {job} | grep Using") for job in (first, second)]
        stage.expect(taken[0] == taken[1], "both jobs took the same GPU")
        stage.screen.say("Both jobs took the same GPU and share its memory, unasked.")
        end_training(stage, first, second)
        return
    taken = stage.run(f"gpeek {first} | grep Using")
    stage.expect(taken.startswith("Using GPU "), f"job {first} says which GPU it took")
    wait_for(stage, second, "EXIT")
    text = stage.run(f"gpeek {second} | grep Check")
    stage.expect("(46 vs. 0)" in text and "busy or unavailable" in text, "the second job found the GPU busy")
    stage.run(f"ghist -l {second} | grep -A1 Exited")
    code = stage.ask(f"gjobs -a -noheader -o exit_code {second}")
    stage.expect(code == "134", f"the second job's exit code is 134 (it was {code})")
    others = ", although other GPUs were idle" if gpus.count > 1 else ""
    stage.screen.say(f"Both took the first GPU, and the second one died of it{others}.")
    end_training(stage, first)


def make_visible(stage: Stage, gpus: Gpus) -> None:
    """Define and map the GPU resources, as one does for LSF."""
    from gsched.config.template import MAP_STANZA, RESOURCE_STANZA

    stage.screen.title("2. GPUs become resources")
    reported = stage.run("elim.gpu --once").split()
    stage.expect(f"{gpus.counter} {gpus.count}" in " ".join(reported), f"elim.gpu counts {gpus.count} {gpus.counter}")
    for name, stanza in zip(("Resource", "ResourceMap"), (RESOURCE_STANZA, MAP_STANZA), strict=True):
        (stage.work / name).write_text(stanza)
    stage.run("tee -a $GSCHED_ENVDIR/lsf.shared < Resource")
    stage.run("tee -a $GSCHED_ENVDIR/lsf.cluster.private < ResourceMap")
    stage.run("gadmin ckconfig 2>&1 | tail -2")
    stage.expect("initiated" in stage.run("gadmin reconfig 2>&1 | tail -1"), "the new configuration is taken over")
    stage.until(lambda: gpus.counter in counts(stage.ask("ghosts -l")), "the host's GPUs are counted")
    seen = counts(stage.run("ghosts -l | head -12"))
    stage.expect(seen.get("ngpus", ("",))[0] == f"{gpus.total}.0", f"ngpus is {gpus.total}.0")
    stage.expect(seen.get(gpus.counter) == (f"{gpus.count}.0", "0.0"), f"{gpus.counter} is {gpus.count}.0")


def claim(stage: Stage, gpus: Gpus) -> None:
    """One GPU each: the counter goes down, and every job has its own device."""
    stage.screen.title("3. Jobs that say what they need")
    stage.screen.say("rusage[...] takes GPUs for a job. Below, Total is what is left of them, Reserved what jobs hold.")
    jobs = []
    for number in range(1, min(2, gpus.count) + 1):
        jobs.append(submit(stage, f"{gpus.claim(1)} ./train.sh"))
        wait_for(stage, jobs[-1], "RUN")
        check_counter(stage, gpus, number)
    held = [devices(stage, job) for job in jobs]
    stage.expect(all(len(each) == 1 for each in held), "each job has one GPU")
    stage.expect(len(set.union(*held)) == len(jobs), "no GPU was given twice")
    end_training(stage, *jobs)


def fill(stage: Stage, gpus: Gpus) -> int:
    """Three jobs of half the GPUs each: the third waits, and says why. Returns its number."""
    each = gpus.half
    at_once = gpus.count // each
    stage.screen.title(f"4. Three jobs with {each} GPU{'s' if each > 1 else ''} each, on {gpus.count}")
    jobs = [submit(stage, f"{gpus.claim(each)} ./train_many.sh") for _ in range(3)]
    for job in jobs[:at_once]:
        wait_for(stage, job, "RUN")
    held = [devices(stage, job) for job in jobs[:at_once]]
    stage.expect(all(len(part) == each for part in held), f"each running job has {each} GPUs")
    stage.expect(len(set.union(*held)) == each * at_once, "no GPU was given twice")
    next_one = jobs[at_once]
    reason = stage.run(f"gjobs -p {next_one}")
    stage.expect("PEND" in reason and gpus.counter in reason, f"job {next_one} waits for {gpus.counter}")
    stage.until(lambda: state(stage, next_one) == "PEND", f"job {next_one} still waits", at_least_s=WAIT_S)
    stage.screen.say(f"Job {jobs[0]} comes to its end now.")
    end_training(stage, jobs[0])
    wait_for(stage, next_one, "RUN")
    stage.run("gjobs -a " + " ".join(map(str, jobs)))
    stage.expect(devices(stage, next_one, show=False) == held[0], f"job {next_one} got the GPUs of job {jobs[0]}")
    stage.until(lambda: state(stage, next_one) == "RUN", f"job {next_one} trains", at_least_s=TRAIN_S)
    end_training(stage, *jobs[1:])
    return next_one


def look_back(stage: Stage, job: int) -> None:
    """The history of the job that waited."""
    stage.screen.title("5. What happened to the job that waited")
    text = stage.run(f"ghist -l {job}")
    pend, *_, total = (int(word) for word in text.strip().splitlines()[-1].split())
    stage.expect(WAIT_S - 1 <= pend <= total, f"job {job} has waited {WAIT_S:g} s or more (ghist says {pend})")
    stage.expect("Done successfully" in text and text.count("Dispatched") == 1, f"job {job} ran once and is done")


def change_modes(stage: Stage, gpus: Gpus) -> None:
    """Compute modes move GPUs from one counter to another, without a restart of anything."""
    stage.screen.title("6. Compute modes change under the scheduler")
    if gpus.is_real:
        stage.screen.say("Left out: the compute modes of real GPUs are not ours to change.")
        return
    stage.screen.say("Two of the GPUs get another mode, as by `nvidia-smi -c 0`; the counters follow.")
    stage.run("gsched sim-gpu 0-1 compute_mode=shared")
    wanted = {"ngpus_shared": ("2.0", "0.0"), "ngpus_excl_p": ("2.0", "0.0")}
    stage.until(lambda: wanted.items() <= counts(stage.ask(COUNTERS)).items(), "two GPUs are shared, two exclusive")
    stage.run(COUNTERS)
    stage.ask("gsched sim-gpu 0-3 compute_mode=exclusive_process")
    stage.until(
        lambda: counts(stage.ask(COUNTERS)).get("ngpus_excl_p") == ("4.0", "0.0"), "all four are exclusive again"
    )


def survive(stage: Stage, gpus: Gpus) -> None:
    """The master dies without a word; one job trains on, another ends meanwhile; nothing is lost."""
    stage.screen.title("7. kill -9 of the master")
    lasting = submit(stage, f"{gpus.claim(1)} -o lasting.log ./train.sh")
    ending = submit(stage, "-o ending.log ./train_cpu.sh")
    logs = [stage.work / "lasting.log", stage.work / "ending.log"]
    stage.until(lambda: all(log.exists() and "Iteration" in log.read_text() for log in logs), "both jobs train")
    stage.run(f"kill -9 $({MASTER_PID})")
    stage.until(lambda: stage.ask(MASTER_PID) == "0", "the master is gone")
    length = len(logs[0].read_text())
    (stage.work / f"stop.{ending}").touch()
    stage.until(lambda: "Optimization Done" in logs[1].read_text(), f"job {ending} ends meanwhile")
    stage.until(lambda: len(logs[0].read_text()) > length, f"job {lasting} trains on")
    stage.run("tail -n 1 lasting.log; grep Optimization ending.log")
    stage.screen.say(f"Job {lasting} trains on, job {ending} has ended, and no master knows. A new one:")
    stage.run("gsched up | head -1")
    wait_for(stage, ending, "DONE")
    stage.run(f"gjobs -a {lasting} {ending}")
    stage.expect(state(stage, lasting) == "RUN", f"job {lasting} still runs")
    end_training(stage, lasting)
    for job in (lasting, ending):
        stage.expect(stage.ask(f"ghist -l {job}").count("Starting (Pid") == 1, f"job {job} was started once")


def play(stage: Stage, *, simulate: bool) -> None:
    """The whole story. Raises NotSo with the first sentence that does not hold."""
    gpus = open_stage(stage, simulate=simulate)
    unseen(stage, gpus)
    make_visible(stage, gpus)
    claim(stage, gpus)
    look_back(stage, fill(stage, gpus))
    change_modes(stage, gpus)
    survive(stage, gpus)


def main(arguments: list[str]) -> int:
    """Play the story and clean up, whatever happens."""
    parser = argparse.ArgumentParser(description="Play the walk-through of gsched on a private one-host cluster.")
    parser.add_argument("--simulated", action="store_true", help="simulate the GPUs, also where there are real ones")
    options = parser.parse_args(arguments)
    screen = Screen()
    if not (BIN / "gsched").exists():
        screen.fault(f"gsched is not installed for {sys.executable}: run this with `make demo`")
        return 1
    began = time.monotonic()
    stage = Stage(screen)
    code = 0
    try:
        try:
            play(stage, simulate=options.simulated)
        finally:
            stage.clear()
        screen.title(
            f"All of it was so: {stage.checked} checks, {time.monotonic() - began:.0f} s. Nothing is left behind."
        )
        screen.say("A cluster of your own: `gsched up`, then docs/getting-started.md.")
    except NotSo as claim_:
        screen.fault(f"\nNOT SO: {claim_}")
        code = 1
    except Interrupted as end:
        screen.fault(f"\nstopped by {signal.Signals(end.args[0]).name}; the cluster is down, its folder removed")
        code = 128 + int(end.args[0])
    except BrokenPipeError:  # `make demo | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 128 + signal.SIGPIPE
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
