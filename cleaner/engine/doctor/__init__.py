"""The doctor looks at whole log dirs, and takes leftovers that are named one by one.

Nouns: *symptoms* are what was read of a log dir; a *glance* is a look at the ends of a segment's files; a *walk* reads
the headers of batches; a *leftover* is a file or directory that no log needs any more.
"""
