"""Read a log as Kafka's consumers and followers do: fetch from an offset, look a timestamp up.

Nouns:
    Isolation: the bound of a fetch (``isolation``).
    OpenSegment: one segment, open, with its indexes in memory (``open_segment``).
    OpenSegments: the readers of one log, as many as may be open at a time (``open_segments``).
    LogView: the log at the moment of one call (``view``).
    Fetched: the answer to a fetch (``fetch``).
    TimestampOffset: the answer to a lookup by timestamp (``timestamps``).
"""

from storage.log.fetching.isolation import Isolation

__all__ = ["Isolation"]
