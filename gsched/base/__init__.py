"""Clock, ids, errors, units: what every floor may use. Nothing here knows what a job is.

Start with `errors` and `coded_text`, which nearly everything uses; `machine` is about the machine that this runs on.
"""
