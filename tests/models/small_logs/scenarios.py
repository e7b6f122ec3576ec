"""Under which configurations, and with which letters, logs are enumerated."""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

from policies.config.config_layers import ConfigLayers
from policies.config.policy import TopicPolicy
from tests.partition_dirs import configured

DELETE_RETENTION_MS: Final = 2
_COMPACT: Final = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.0",
    "delete.retention.ms": str(DELETE_RETENTION_MS),
}


class Scenario(NamedTuple):
    """``seeds`` are the stories that every log begins with, one of them."""

    name: str
    configs: dict[str, str]
    letters: str
    seeds: tuple[str, ...] = ("",)

    @property
    def replicates_later(self) -> bool:
        return ">" in self.letters

    @property
    def layers(self) -> ConfigLayers:
        return _layers(self.name)

    @property
    def policy(self) -> TopicPolicy:
        return self.layers.policy_for("orders")


SCENARIOS: Final = (
    Scenario("keys and tombstones", _COMPACT, "ABaW|.%!", ("", "AB|%", "WaB|!", "AaW|!.")),
    Scenario("records without key", _COMPACT | {"max.unkeyed.ratio": "1"}, "AUa|~%", ("", "AU|")),
    Scenario("producers", _COMPACT, "IiTtCX|~%!", ("", "TX|!", "TCTX|", "Ii|!")),
    Scenario("two transactions", _COMPACT, "TSCDXY|.~!", ("", "STXY|", "STCD|!", "SYSD|!~")),
    Scenario(
        "lags",
        _COMPACT | {"min.cleanable.dirty.ratio": "0.6", "min.compaction.lag.ms": "2", "max.compaction.lag.ms": "4"},
        "ABaTC|>.%!",
        ("", "AaA|>", "TATC|>..", "AB|>~%A|>"),
    ),
    Scenario("small segments", _COMPACT | {"segment.bytes": "150"}, "ABaTX|.%!", ("", "A|B|")),
    Scenario(
        "retention",
        {"cleanup.policy": "delete", "retention.ms": "2", "retention.bytes": "150"},
        "AWF|>.^-",
        ("", "A|W|>", "A|F|A|>.", "A|A|.."),
    ),
    Scenario(
        "size alone",
        {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "150"},
        "AW|>^-",
        ("", "W|W|W|>"),
    ),
    Scenario(
        "both",
        _COMPACT | {"cleanup.policy": "compact,delete", "retention.ms": "4", "retention.bytes": "300"},
        "AaTCX|.~^*-",
        ("", "Aa|A|*", "TXA|*..", "TA|X|*"),
    ),
)


@cache
def _layers(name: str) -> ConfigLayers:
    (scenario,) = (scenario for scenario in SCENARIOS if scenario.name == name)
    return configured(orders=scenario.configs)
