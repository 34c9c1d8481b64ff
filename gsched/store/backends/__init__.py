"""What holds a store for its one master: opens it, keeps others out, commits a batch and says what became of it.

Start with `backend`, which says what each must do. None of them knows what an event is.
"""
