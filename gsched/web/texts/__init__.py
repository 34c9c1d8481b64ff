"""The words of all pages, a table for each language. Start with `catalogue`.

Sentences of the master (reasons, notes, problems) are not here: they are `gsched.base.sentences`', in English.
"""
