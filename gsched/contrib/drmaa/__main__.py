"""`export PYTHONPATH=$(python -m gsched.contrib.drmaa)`: by that folder `import drmaa` means this package."""

from gsched.contrib.drmaa.installation import IMPORT_PATH

if __name__ == "__main__":
    print(IMPORT_PATH)
