"""Archives of history as they are made: `gadmin history archive`. Start with `archiving`.

Nothing is removed from a store before its file was read again and compared with it. How a file looks is in
`gsched.master.archive`.
"""
