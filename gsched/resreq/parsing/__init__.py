"""From text to values and back: the tokens, a module for each section, and the printer.

Start with `syntax` (-R) or `gpu` (-gpu). It refuses with the position, and never judges a host.
"""
