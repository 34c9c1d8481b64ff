"""Layouts of jobs: tables, long records, histories, accounts. LSF 10.1 is the source of each form."""
