"""Show that a key is in no file of some log dirs, or in which files it is, and until when.

Nouns:
    WantedKey: a key as a person wrote it, and the bytes that stand for it in a record (``wanted``).
    FilePlace: a file of a log dir, by what its name and its directory say (``places``).
    FileEvidence: what the search of one file found, with the file's SHA-256 (``searching``).
    ErasureProof: all of it, with the moment at which each file that holds a key is gone (``proving``).
"""
