"""Find an offset or a timestamp in a log as Kafka finds it, read only what that takes, and tell each step.

Nouns:
    Lookup: the answer, with its steps (``steps``).
    LookupStep: one look at one file: what was found there, and where the look leads to.
    Probe: an index file of which single entries are read (``probe``).
    LogSearch: the segments of one log, to be searched (``search``).
"""
