"""Words of gsched about what LSF leaves: `import-lsf`, `export`. Start with `import_words`.

They change nothing of an installation of LSF.
"""
