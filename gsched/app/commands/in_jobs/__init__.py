"""Words of gsched for processes of a job: `requeue_me`. They ask the agent of their host, never the master."""
