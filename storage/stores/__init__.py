"""Log dirs that lie in a bucket or in HDFS: named by a URL, listed, read in ranges, and written anew.

Nouns:
    StoredPath: a path whose first part is the URL of a bucket or of an HDFS (``paths``).
    Store: what is asked of a place: list, look, read, write (``store``); one for object stores (``objects``), one for
        HDFS (``hdfs``), both opened by ``opening``.
    Catalogue: the names of a store as they were listed, so that nothing is asked twice (``catalogue``).
    StoredFile: one version of one file, read in ranges (``stored_file``).
"""
