"""What agents say about attempts, and what becomes of jobs by it: started, ended, lost, unknown.

Start with `attempt_reports`. An attempt that the state does not know is never ended unasked.
"""
