"""Elims: programs of a site that report load and resources of a host, one line after the other.

Start with `elim`. An elim that is silent makes its values unknown, never 0, and never holds the agent up.
"""
