"""Hosts that come, report and fall silent, and what time alone brings about.

Start with `host_reports`. A host that is silent keeps its jobs until its time is up.
"""
