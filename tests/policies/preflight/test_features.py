"""The feature levels that each version of Kafka knows, by its jars; whole starts compare the same with a broker."""

from __future__ import annotations

from itertools import pairwise

import pytest

from policies.preflight.facts import KafkaFailure, Release
from policies.preflight.metadata import LEVELS, METADATA_VERSION, feature_failure

OF_4_4 = [(METADATA_VERSION, 33), ("share.version", 2), ("streams.version", 1), ("eligible.leader.replicas.version", 1)]


def test_kafka_4_4_knows_its_own_levels_and_kafka_4_3_names_the_first_that_it_does_not_know() -> None:
    text = "No MetadataVersion with feature level 33. Valid feature levels are from 7 to 31."
    assert feature_failure(OF_4_4, Release(4, 4)) is None
    assert feature_failure(OF_4_4, Release(4, 3)) == KafkaFailure("IllegalArgumentException", text)


@pytest.mark.parametrize("release", LEVELS, ids=str)
def test_each_version_takes_its_highest_levels_and_refuses_the_next_ones(release: Release) -> None:
    known = LEVELS[release]
    highest = [(METADATA_VERSION, known.highest), *known.others.items()]
    assert feature_failure(highest, release) is None
    for name, level in highest:
        failure = feature_failure([(name, level + 1)], release)
        assert failure is not None
        assert str(level + 1) in failure.cause


def test_levels_never_fall_from_one_version_to_the_next() -> None:
    found = list(LEVELS.values())
    for older, newer in pairwise(found):
        assert older.highest < newer.highest <= newer.highest_named
        assert all(newer.others[name] >= level for name, level in older.others.items())


def test_sentence_is_that_of_the_version() -> None:
    failures = [feature_failure([(METADATA_VERSION, 99)], Release(*release)) for release in ((3, 7), (3, 9))]
    causes = [failure.cause for failure in failures if failure]
    assert causes == ["No MetadataVersion with metadata version 99", "No MetadataVersion with feature level 99"]


def test_level_of_the_quorum_and_versions_that_are_not_known_refuse_nothing() -> None:
    assert feature_failure([("kraft.version", 9)], Release(4, 3)) is None
    assert feature_failure([(METADATA_VERSION, 99)], Release(3, 0)) is None
