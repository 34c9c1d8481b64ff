"""ssh to a host: a session joins the job of its user, as `gsched-pam` asks when somebody logs in.

Start with `login_rules`, which says who is let in; `login_sessions` puts a session into the job's control group, with
`session_moves`; `login_server` is the socket, `login_askers` says who asks there. Must never take a user's word for who
logs in: only root asks for a login.
"""
