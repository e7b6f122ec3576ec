"""The least and the greatest numbers that Kafka's types hold, and the first beside them."""

from __future__ import annotations

import pytest

from tests.policies.config.test_config_values import parse

INT_MAX, LONG_MAX = (1 << 31) - 1, (1 << 63) - 1


@pytest.mark.parametrize(("name", "most"), [("log.retention.hours", INT_MAX), ("log.retention.ms", LONG_MAX)])
def test_every_number_of_a_type_is_read_and_none_beyond(name: str, most: int) -> None:
    for least in (-most - 1, -most, -1):
        assert parse(name, str(least), as_broker=True) == -1  # a negative one is no limit
    assert parse(name, str(most), as_broker=True) >= most
    for beyond in (-most - 2, most + 1):
        with pytest.raises(ValueError, match="out of range"):
            parse(name, str(beyond), as_broker=True)
