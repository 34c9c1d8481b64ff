"""GPU hours by user and month from archives of history: python examples/gpu_hours.py /archive/gsched

It needs pandas and the files that `gadmin history archive` has written (docs/history.md), and no cluster.
"""

import sys
from pathlib import Path

import pandas


def gpu_hours(folder: Path) -> "pandas.DataFrame":
    """A row for each user, a column for each month (UTC), in GPU hours."""
    files = sorted(folder.glob("jobs-*.jsonl.gz"))
    if not files:
        raise SystemExit(f"{folder}: no archive of jobs lies here")
    jobs = pandas.concat(pandas.read_json(path, lines=True, dtype={"JOBID": str}) for path in files)
    # A job to which something happened after its archive was written is in a later part again.
    jobs = jobs.drop_duplicates("JOBID", keep="last")
    jobs["MONTH"] = pandas.to_datetime(jobs["FINISH_TIME"], unit="s", utc=True).dt.strftime("%Y-%m")
    return jobs.pivot_table(index="USER", columns="MONTH", values="GPU_TIME", aggfunc="sum", fill_value=0) / 3600.0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    print(gpu_hours(Path(sys.argv[1])).round(1).to_string())
