"""What a scheduling cycle sees and what it decides, and the values of all hosts in columns.

Start with `snapshot`. Nothing here is stored, and a cycle never changes what it was given.
"""
