"""Agents that are connected: their streams, what they say, and what they are told.

Start with `agent_service`. What agents say is checked in `message_checks` before anything is made of it.
"""
