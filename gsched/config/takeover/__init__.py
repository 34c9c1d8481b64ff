"""The files of an installation of LSF, written anew as gsched reads them, and a word about each of their lines.

Start with `taking_over`. Which names gsched knows, and what it says of the others, is asked of the readers of files
themselves; nothing here may repeat their lists, and nothing changes a file of the installation.
"""
