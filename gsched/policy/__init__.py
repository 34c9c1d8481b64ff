"""Scheduling: `cycle.schedule(snapshot, now, budget) -> Plan`. Pure, bounded in steps, ties broken by a stated key.

Start with `cycle`.
"""
