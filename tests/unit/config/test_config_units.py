"""LSF_UNIT_FOR_LIMITS: what every size without a unit is in, in all files."""

from __future__ import annotations

import pytest
from config_texts import BASE, check, with_lines

from gsched.model.queues.limit import Amount
from gsched.model.queues.queue import RunLimits, Threshold

FILES = {
    "lsb.params": "Begin Parameters\nDEFAULT_QUEUE = normal\nGPU_REQ = num=1:gmem=2048\nEnd Parameters\n",
    "lsb.queues": "Begin Queue\nQUEUE_NAME = normal\nMEMLIMIT = 2048 4GB\nSTACKLIMIT = 1024\nmem = 2048/1024\n"
    "RES_REQ = select[mem>2048] rusage[mem=512]\nSTOP_COND = select[tmp<2048]\nGPU_REQ = gmem=5G\nEnd Queue\n",
    "lsb.applications": "Begin Application\nNAME = a\nMEMLIMIT = 2048\nRES_REQ = swp>2048\nEnd Application\n",
    "lsb.hosts": "Begin Host\nHOST_NAME MXJ mem\ndefault ! 2048/1024\nEnd Host\n",
    "lsb.resources": "Begin Limit\nNAME = x\nMEM = 2048\nRESOURCE = [tmp, 1024] [lic, 3]\nEnd Limit\n",
}


def test_every_file_takes_the_unit() -> None:
    checked = check({**FILES, **with_lines("lsf.conf", "LSF_UNIT_FOR_LIMITS=KB", "LSB_GPU_REQ=gmem=7")})
    assert checked.errors == []
    assert checked.config is not None
    queue, profile = checked.config.queues["normal"], checked.config.applications["a"]
    assert queue.limits == {"MEMLIMIT": RunLimits(4096.0, 2.0), "STACKLIMIT": RunLimits(1024.0, None)}
    assert queue.thresholds == {"mem": Threshold(2.0, 1.0)} == checked.config.hosts["h1"].thresholds
    assert queue.res_req == "select[mem>2048KB] rusage[mem=512KB]"
    assert queue.stop_cond == "select[tmp<2048KB]"
    assert queue.gpu_req == "gmem=5G"
    assert (profile.limits, profile.res_req) == ({"MEMLIMIT": 2.0}, "swp>2048KB")
    assert checked.config.params.gpu_req == "num=1:gmem=2048KB"
    (limit,) = checked.config.limits
    assert limit.amounts == {"mem": (Amount(2.0),), "tmp": (Amount(1.0),), "lic": (Amount(3.0),)}


@pytest.mark.parametrize("line", ["LSF_UNIT_FOR_LIMITS=M", "LSF_UNIT_FOR_LIMITS=mb", "LSF_ROOT_USER=Y"])
def test_in_mb_texts_stay_as_they_are(line: str) -> None:
    config = check({**FILES, **with_lines("lsf.conf", line)}).config
    assert config is not None
    assert config.queues["normal"].res_req == "select[mem>2048] rusage[mem=512]"
    assert config.queues["normal"].limits["MEMLIMIT"] == RunLimits(4096.0, 2048.0)
    assert config.params.gpu_req == "num=1:gmem=2048"


def test_limits_of_queues_are_whole_units() -> None:
    queues = BASE["lsb.queues"].replace("PRIORITY = 30", "MEMLIMIT = 1500MB\nDATALIMIT = 1500MB")
    config = check({"lsb.queues": queues, **with_lines("lsf.conf", "LSF_UNIT_FOR_LIMITS=GB")}).config
    assert config is not None
    assert config.queues["normal"].limits == {
        "MEMLIMIT": RunLimits(2048.0, None),
        "DATALIMIT": RunLimits(1500.0 * 1024, None),
    }
