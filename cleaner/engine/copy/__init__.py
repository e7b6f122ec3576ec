"""A cleaned copy of a log directory elsewhere.

Nouns: the *moment* says what is copied; the *output* is where it goes; the *manifest* tells what came of it.
"""
