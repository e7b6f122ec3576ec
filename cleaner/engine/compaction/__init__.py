"""One round of compaction over one partition: the hot path, and the only part of the engine that loads numba.

Nouns: a *source* is a segment read, a *group* the sources that become one segment; *survivors* are the records that
stay; a *fate* is what transactions and producers say of a batch; a *cleaned* segment is the output before the swap.
"""

from cleaner.engine.compaction.round import Compacted, Round, compact, measure

__all__ = ["Compacted", "Round", "compact", "measure"]
