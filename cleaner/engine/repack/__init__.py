"""Merge the small batches that compaction and small producers leave into fewer, larger ones: ``clean --repack``.

Nouns: a *run* is a stretch of neighbouring batches that become one (``merging``). A repacking is planned, and carried
out segment by segment, each by the swap of a compaction (``repacking``).
"""
