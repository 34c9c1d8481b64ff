"""Configuration in LSF's file formats: read, checked as a whole, and turned into one ClusterConfig.

Start with `configuration` (its `load`); `config_folder` reads what lies in the folder. `files` has a
module for each file, and a parameter of a queue is a row of `files.queue_parameters`; `grammar` splits the files into
sections and values. `template.write_private` writes a folder. It asks no daemon.
"""
