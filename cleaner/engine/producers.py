"""The producer state at a log's end, as an execution needs it: for snapshots, and for what a compaction must keep."""

from __future__ import annotations

from cleaner.engine.means import Means
from policies.facts import PartitionFacts
from storage.log.listing import Listing
from storage.log.producers import load_producer_state
from storage.producer_state import ProducerState


def producer_state_of(facts: PartitionFacts, listing: Listing, now_ms: int, means: Means) -> ProducerState:
    """Replay from the newest snapshot. Raises: as ``load_producer_state``."""
    return load_producer_state(
        listing.snapshots, listing.segments, facts.log_start_offset, facts.log_end_offset,
        now_ms, means.broker.producer_id_expiration_ms,
    )  # fmt: skip
