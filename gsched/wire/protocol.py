"""The version of the contract between master and agents, in the one place that both sides read."""

from __future__ import annotations

PROTOCOL = 2
"""Raised when an old agent would misunderstand a new master, or the reverse; both sides must have the same."""
