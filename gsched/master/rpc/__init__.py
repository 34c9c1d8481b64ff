"""The services that commands and programs call.

Start with `scheduler_service`. Reads come from the views, changes go through the engine's thread. Decides nothing.
"""
