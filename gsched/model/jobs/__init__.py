"""Jobs: what was asked, the legal states, why they wait, how attempts end, and what becomes of a job then.

Start with `job`. Fields are only added, each with a default: stores of earlier versions hold these records.
"""
