"""What a page shows, as values that a template only has to lay out. Start with `gpu_tiles`.

Nothing here asks the master or makes markup.
"""
