"""Requirements of a job, its application profile and its queue as one, and how that one is kept and shown.

Start with `combine`. Values are combined, never texts.
"""
