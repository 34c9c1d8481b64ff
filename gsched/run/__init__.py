"""Running jobs: orders, the supervisor that outlives the agent, process trees, and a scripted executor."""
