"""LSF's accounting, lsb.acct: lines read to records and written from them. Start with `job_finish`.

It opens no file: whoever has one gives its lines.
"""
