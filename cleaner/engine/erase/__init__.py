"""Take the records of some keys out of logs: pass 2 of a compaction with another bitmap.

Nouns: a *bitmap* has a bit for each record of a segment, set if the record stays (``marking``). An erasure is planned,
and carried out segment by segment, in ascending order (``erasing``).
"""
