"""Questions about the past: read from the store by a process of its own, so that no answer holds the scheduler up."""
