"""What people do to jobs, queues, hosts and reservations on request: kill, stop, requeue, move, reserve.

Start with `job_control`. Who may do what is decided by gsched.core.authorization alone.
"""
