"""Deletions taken back: the history of runs, what is restorable, and the restore."""
