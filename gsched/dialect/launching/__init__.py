"""Launch profiles of `gsub --launch` and `glaunch --launch`: how programs that train on several hosts are started.

Start with `launch_profiles`: the table of profiles. `launch_words` reads the options, `launch_plan` says what runs on
which host and with which environment, `rank_file` writes Open MPI's rank files, `launcher_names` says which commands
begin with the launcher. Pure: nothing here starts a process, opens a file or asks for a port.
"""
