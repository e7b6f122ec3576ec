"""Show that a key is in no file of some log dirs, or which files hold it, and until when.

Nouns:
    WantedKey: a key as a person wrote it, and the bytes that stand for it in a record (``wanted``).
    FilePlace: a file of a log dir, described by its name and its directory (``places``). FileEvidence: the result of
    the search of one file, with the file's SHA-256 (``searching``). ErasureProof: the evidence of all files, with the
    moment at which each file that holds a key is gone (``proving``).
"""
