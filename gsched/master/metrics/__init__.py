"""/metrics: what a monitoring system reads of the master. Start with `page`.

`measurements` is what the master counts and times; `job_counts` and `families` make numbers of published views;
`page` renders them when somebody asks, slowly enough to disturb nobody; `http_server` serves the page. Nothing here may
ask the engine, keep it waiting, or hold more than grows with hosts, GPUs, queues and running jobs.
"""
