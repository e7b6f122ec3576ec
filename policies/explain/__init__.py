"""Explain one partition: why each segment stays, what blocks it, and what changes next. Facts in, explanation out.

Nouns:
    Observations: the known facts about one partition beside those of a plan (``observations``). SegmentFate: the fate
    of one segment, and since or until when it holds (``fates``). Blocker: a cause that keeps segments which could go,
    with its owner and its remedy (``blockers``). ComingChange: a moment at which something about the partition changes
    by itself (``changes``). PartitionExplanation: everything together (``explanation``).
"""
