"""The rules of all layouts: columns and folds, times, sizes, `-o` formats, and requirements and reasons as texts.

Start with `text_columns`.
"""
