"""Tell when the records of a key leave a file, and what has to happen before. Facts in, moments out.

Nouns:
    FileHolding: what one file of a partition holds of one key (``departures``).
    Departure: the moment at which the file is gone, or no longer holds the key, with what that takes.
"""
