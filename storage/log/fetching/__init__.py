"""Look a timestamp up as Kafka does, in a log that is looked up in again and again.

Nouns:
    OpenSegment: one segment, open, with its indexes in memory (``open_segment``).
    OpenSegments: the readers of one log, as many as may be open at a time (``open_segments``).
    LogView: the log at the moment of one call (``view``).
    TimestampOffset: the answer to a lookup by timestamp (``timestamps``).
"""
