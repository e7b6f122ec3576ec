"""One round of compaction over one partition: the hot path.

Nouns: a *span* is a segment of the round with the offset that it ends below, a *group* the spans that become one
segment; *survivors* are the records that stay; a *fate* is the decision of transactions and producers about a batch; a
*cleaned* segment is the output before the swap.
"""

from cleaner.engine.compaction.round import Compacted, Round, compact, copy_compacted, measure, round_of
from cleaner.engine.compaction.targets import IntoCopy

__all__ = ["Compacted", "IntoCopy", "Round", "compact", "copy_compacted", "measure", "round_of"]
