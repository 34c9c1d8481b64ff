"""The rules of all layouts: columns and folds, times, sizes, `-o` formats, and the records that layouts take."""
