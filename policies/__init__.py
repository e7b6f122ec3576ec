"""Pure decisions: facts in, plan out. No file is opened, no clock is read, nothing is logged or counted here.

Nouns:
    PartitionFacts, SegmentFacts: everything that the policies may know (``facts``). TopicPolicy: the configuration of
    one topic, with the layer that set each value (``config``). Retention, CompactionRound: the segments that age, size
    and log start delete; the segments that are compacted together. Verdict, Reason: what happens to each segment, kept
    or deleted, and why (``reasons``). Plan: the verdicts of a run and the actions that follow (``plan``).
"""

from policies.plan import Plan, Request
from policies.planning import plan

__all__ = ["Plan", "Request", "plan"]
