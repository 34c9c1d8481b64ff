"""Lines of lsb.acct as LSF writes them, in the forms of several versions; put together by lsb.acct(5)."""

from __future__ import annotations

RUSAGE = "12.500000 0.750000 -1 -1 -1 -1 -1 100 2 0 0 0 -1 -1 -1 0 40 8 -1"


def line(
    job: int, *, user: str = "ann", hosts: str = '2 "hosta" "hosta"', status: int = 64, exit: int = 0, **more: object
) -> str:
    """A record of LSF 9.1 and later up to the fields that all of them have."""
    values = {"end": 1_700_000_900, "submit": 1_700_000_000, "start": 1_700_000_300, "name": "night run", "idx": 0}
    values |= {"command": "./train.sh --fast", "asked": "0", "version": "9.13", **more}
    command = str(values["command"]).replace('"', '""')
    return (
        f'"JOB_FINISH" "{values["version"]}" {values["end"]} {job} 1001 33816603 2 {values["submit"]} 0 0 '
        f'{values["start"]} "{user}" "batch" "rusage[mem=100]" "" "" "login1" "proj/a" "" "log/%J" "" "{job}.sh" '
        f'{values["asked"]} {hosts} {status} 60.0 "{values["name"]}" "{command}" {RUSAGE} "" "vision" {exit} 2 "" "" '
        f'{values["idx"]} 204800 409600 "" ""'
    )


def later(info: int = 0, app: str = "", group: str = "/night") -> str:
    """What LSF 9.1.3 has behind that, up to GPUs of 10.1."""
    return (
        f' "" "" 0 "" {info} "" -1 "/ann" "" "{app}" "" 0 "{group}" "" 1032 "" -1 "" "for the paper" 1 "SUB_APS" "9" '
        '1 "hosta" 204800 409600 12 1 2 3600 102400 "select[type == any] rusage[mem=100.00]" "" 0 "" 0 0 0 0 0 "" 600 '
        '"/home/ann/proj/a" 0 "" 0.00 0.0000 0.0000 0.0000 0.0000 2 "hosta" "hosta" 0 0 0'
    )


GPUS = ' 1 "hosta" 2 "gpu0" "95" "gpu1" "80" 0 1 "schedulingOverhead" "0.35" 0.42 "more to come"'
"""What 10.1.0.x has behind that."""
