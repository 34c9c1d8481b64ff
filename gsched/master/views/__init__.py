"""What readers see: frozen views of committed state, replaced after each commit and never before.

Start with `board`. Nothing here changes the state.
"""
