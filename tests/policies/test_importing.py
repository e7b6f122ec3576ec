"""What a starting broker would say of the partition that an import makes: its topic id, and the one warning."""

from __future__ import annotations

import pytest

from policies.importing import ImportFacts, placement
from storage.names import TopicPartition

KNOWN = ImportFacts(TopicPartition("orders", 3), True, "id", (1, 2), "here", 1, "here", None)


@pytest.mark.parametrize(
    ("changed", "topic_id", "warning"),
    [
        ({}, "id", ""),
        ({"directory_id": None}, "id", ""),
        ({"own_directory_id": None}, "id", ""),
        ({"node_id": None}, "id", ""),
        ({"directory_id": "there"}, "id", "places it in the log dir with the id there, and this one has here"),
        ({"node_id": 3}, "id", "places it on 1, 2, not on 3"),
        ({"replicas": ()}, "id", "knows no partition 3 of orders"),
        ({"topic_id": None, "neighbours_id": "beside"}, "beside", "gets the topic id of its other partitions here"),
        ({"topic_id": None}, None, "the cluster metadata knows no topic orders: the new partition gets a new topic id"),
        ({"topic_id": None, "has_metadata": False}, None, "there is no cluster metadata here"),
    ],
)
def test_partition_to_be_made_is_judged_as_a_broker_will(
    changed: dict[str, object], topic_id: str | None, warning: str
) -> None:
    found = placement(KNOWN._replace(**changed))  # type: ignore[arg-type]
    assert found.topic_id == topic_id
    assert warning in found.warning
    assert bool(warning) is bool(found.warning)
