"""The pages about jobs: the list, one with its output and curves, several compared, a new one, what is done to them.

Start with `job_page`. They are as `gsched.web.pages` are: each asks the master as the user, and decides nothing.
"""
