"""`import drmaa` finds this where the file's folder is in PYTHONPATH: it puts gsched.contrib.drmaa in its own place.

A thread that imports it while another does so gets this module itself, so all names are found here, too.
"""

from gsched.contrib.drmaa.installation import install

_package = install()


def __getattr__(name: str) -> object:
    return getattr(_package, name)
