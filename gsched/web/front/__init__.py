"""`gsched web` of a shared cluster: many users, each proven, each with pages that a process of the user's own makes.

Start with `front_serving`. Three kinds of processes, which trust each other as little as they can:

- the front (`front_application`) speaks with the network: TLS, who asks, sessions. It runs as an account that may
  nothing else, and hands each request on to the process of its user;
- the keeper (`keeper`) is root and speaks with the front alone: it has passwords checked and starts users' processes;
- a process of each user (`user_process`) makes pages, asks the master through the host's command server, and reads and
  writes files: the kernel says to both who it is.

Nothing here asks the master in another user's name, or opens a file for anybody.
"""
