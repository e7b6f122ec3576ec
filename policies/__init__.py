"""Pure decisions: facts in, plan out. No file is opened, no clock is read, nothing is logged or counted here.

Nouns:
    PartitionFacts, SegmentFacts: all the policies may know (``facts``).
    TopicPolicy: the configuration of one topic, with the layer that set each value (``config``).
    Retention, CompactionRound: what goes by age, size and log start; what is compacted together.
    Verdict, Reason: what happens to a segment and why, for the kept ones as for the deleted ones (``reasons``).
    Plan: the verdicts of a run and the actions that follow (``plan``).
"""

from policies.plan import Plan, Request, plan

__all__ = ["Plan", "Request", "plan"]
