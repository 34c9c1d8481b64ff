"""What an executor knows of each attempt, and follows to its end: also one whose supervisor or folder is gone.

Start with `attempt_following`. All of it can be read again from the attempt's folder and from /proc.
"""
