"""What several commands make of the master's answers, and the lines that commands on jobs answer with.

Start with `job_actions`. Nothing is computed anew that the master has said.
"""
