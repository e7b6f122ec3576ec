"""The space that log dirs take, added up as ``du`` does. Only directories and /proc are read; nothing is changed.

Nouns: an *account* says what each kind of file takes, in a log dir or a partition directory; an *amount* is a number of
files with their sizes; *unlinked* files have no name any more, but a process keeps them open, and so their blocks.
"""
