"""What the master does to its store while nobody wants anything: it packs rows, and takes away what is too old.

Start with `store_upkeep`. It must never make anybody wait for longer than a small piece of it.
"""
