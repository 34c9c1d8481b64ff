"""Jobs whose tasks are dealt over several hosts: all of them find a place, or none does.

Start with `task_spread`. It knows neither limits nor plans.
"""
