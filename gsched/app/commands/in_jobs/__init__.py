"""Words of gsched for processes of a job. Start with `requeue_me`. They ask the agent of their host alone."""
