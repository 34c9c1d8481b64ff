"""The version of drmaa-python whose interface this package has, for programs that look at `drmaa.__version__`."""

__version__ = "0.7.9"
VERSION = (0, 7, 9)
