"""Tiered storage (KIP-405): the segments that a broker copied to a bucket or a directory, read and never changed.

Nouns:
    RemoteSegment: what the metadata and the files of a tier tell of one copied segment (``segments``).
    Layout: how a plugin names and packs its files: Kafka's own ``LocalTieredStorage`` (``local``), Aiven's plugin
        (``aiven``). Each gives the original bytes of a file by range.
    Events: the records of ``__remote_log_metadata``, replayed (``metadata``).
    Tier: a layout and the events, put together (``tier``).
    LogPiece: a part of a log, and the copy that counts there; leader epochs decide (``joining``).
    TierView: local log dirs and a tier, as one log dir. It is a store like a bucket, and its URL begins with ``tier://``:
        whatever reads a log dir in a bucket reads a tiered log, too (``view``).
"""
