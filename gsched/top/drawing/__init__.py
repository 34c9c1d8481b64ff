"""A look as lines of styled text, of a given width: bars, tables, the plain listing.

Start with `gpu_lines`. Every text of a user goes through `printable`; nothing is asked, nothing is markup.
"""
