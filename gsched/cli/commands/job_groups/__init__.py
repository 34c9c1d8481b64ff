"""Commands of job groups: make, limit, remove and list them.

Start with `gbgadd`. A command here never changes the jobs of a group.
"""
