"""A cleaned copy of a log directory elsewhere.

Nouns: the *moment* is the state that is copied; the *output* is the directory of the copy; the *manifest* lists the
result.
"""
