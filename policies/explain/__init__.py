"""Explain one partition: why each segment stays, what blocks it, and what changes next. Facts in, explanation out.

Nouns:
    Observations: all that is known of one partition beside the facts of a plan (``observations``).
    SegmentFate: what becomes of one segment, and since or until when (``fates``).
    Blocker: what keeps segments that could go, whose it is, and the remedy (``blockers``).
    ComingChange: a moment at which something about the partition changes by itself (``changes``).
    PartitionExplanation: all of it (``explanation``).
"""
