"""What protected by the first reading of a configuration, and does not by the second."""

from pathlib import Path
from typing import Any

from policies.config.config_layers import Configured
from policies.config.loosened import lost_protection
from policies.facts import ConfigFacts
from tests.policies.config.test_config_layers import layers

DATA, OTHER = Path("/data"), Path("/other")
OWN = ConfigFacts(stated_by="a.properties", stated_node_id="1", own_node_id="1", names_log_dir=True)


def configured(*log_dirs: Path, facts: ConfigFacts = OWN, **sources: Any) -> Configured:
    return Configured(log_dirs or (DATA,), layers(**sources), {DATA: facts})


def keeping(limit: str) -> dict[str, Any]:
    return {"topics_file": {"*": {"cleanup.policy": "delete", "retention.ms": limit}}}


def test_the_same_again_loses_nothing() -> None:
    assert lost_protection(configured(**keeping("1d")), configured(**keeping("1d")), ["orders"]) == ()


def test_a_shorter_limit_is_told_with_its_topics_and_a_longer_one_is_not() -> None:
    month, day = configured(**keeping("30d")), configured(**keeping("1d"))
    assert lost_protection(month, day, "abcde") == (
        "retention.ms=1d (topics_file *), before retention.ms=30d (topics_file *), for 5 topics: a, b, c and 2 more",
    )
    assert lost_protection(month, day, ["orders"])[0].endswith(", for topic orders")
    assert lost_protection(day, month, "abcde") == ()


def test_a_key_of_the_broker_names_no_topic() -> None:
    before, after = (configured(defaults={"clock.jump.max": limit}) for limit in ("1d", "30d"))
    assert lost_protection(before, after, ["orders"]) == (
        "clock.jump.max=30d (defaults), before clock.jump.max=1d (defaults)",
    )


def test_a_log_dir_that_was_not_named_before_is_told() -> None:
    before = configured(DATA, defaults={"log.dirs": "/data"})
    after = configured(DATA, OTHER, defaults={"log.dirs": "/data,/other"})
    assert lost_protection(before, after, []) == ("log.dirs=/data,/other (defaults), before log.dirs=/data (defaults)",)
    assert lost_protection(after, before, []) == ()


def test_a_log_dir_that_was_named_and_is_mounted_by_now_is_none() -> None:
    named = {"defaults": {"log.dirs": "/data,/other"}}
    assert lost_protection(configured(DATA, **named), configured(DATA, OTHER, **named), []) == ()


def test_a_guard_rail_that_is_gone_is_told() -> None:
    before, after = configured(facts=foreign()), configured()
    (told,) = lost_protection(before, after, [])
    assert told.startswith("/data: before, a guard rail held it back: FOREIGN_CONFIG: a.properties is for node.id 1")
    assert lost_protection(after, before, []) == lost_protection(before, before, []) == ()


def foreign() -> ConfigFacts:
    return ConfigFacts(stated_by="a.properties", stated_node_id="1", own_node_id="2", names_log_dir=True)
