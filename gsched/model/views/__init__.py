"""Views: what queries answer. The master makes them of committed state, wire carries them, commands show them.

Start with `view`. Texts travel in them as codes; a view never leads back to the state that it was made of.
"""
