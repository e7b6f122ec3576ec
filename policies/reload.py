"""The reload guard: a saved limit that lets much more go than the limit confirmed last waits for a person.

Saving a file does not apply it. A value that keeps more holds at once. A value that lets more go waits, topic by topic,
if a limit is ten times shorter, if there was none, if ``cleanup.policy`` has an action more, if a guard rail grows
weaker, or if more than half of a topic's bytes become due that were not due before. While the limits of a topic wait,
each of its keys has the value that keeps most, among the present one, the confirmed one, and all values saved in
between.

The cluster metadata is not compared: both sides are resolved with the present metadata.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf, isinf
from typing import Any, Final, NamedTuple

from policies.config.config_keys import BROKER_KEY, LONG_MAX, NO_LIMIT, TOPIC_KEY, ValueUnit
from policies.config.config_layers import ConfigLayers
from policies.config.loosened import Loosened, loosened_broker, loosened_topic
from policies.config.policy import BrokerPolicy, Layer, TopicPolicy
from policies.facts import LogDirFacts, PartitionFacts, SegmentFacts
from policies.guards import unless_confirmed
from policies.plan import Request
from policies.reasons import Limit, Reason, ReasonCode, share_beside
from policies.retention import retention
from storage.names import TopicPartition

TIMES_SHORTER: Final = 10
"""The factor by which a limit must shrink to wait."""
NEWLY_DUE_MAX: Final = 0.5
"""The share of a topic's bytes above which an edit that makes them due waits."""
_GUARD_RAILS: Final = frozenset({"max.delete.ratio", "max.unkeyed.ratio", "clock.jump.max", "reload.guard"})
_SWITCHES: Final = frozenset({"remote.storage.enable", "retention.future.timestamps", "log.cleaner.enable"})
"""Keys without a number: a change lets records go that were kept altogether before."""
_WAITS: Final = "waits for logcleaner config apply"


class Confirmed(NamedTuple):
    """The configurations that the one of a run is compared with, in one log dir.

    Attributes:
        earlier: what was confirmed last, and what was saved since then while something waited; each with the cluster
            metadata and the ``--set`` of the run. Empty: nothing was ever confirmed.
        last: what was confirmed last.
        lost_metadata: whether an earlier configuration had cluster metadata, and the run has none.
        unreadable: why the limits confirmed last cannot be read.
    """

    earlier: tuple[ConfigLayers, ...] = ()
    last: ConfigLayers | None = None
    lost_metadata: bool = False
    unreadable: str | None = None


class Edit(NamedTuple):
    """The keys that let more go in one partition than before.

    Attributes:
        kept: the values that keep most.
        loosened: the keys whose value lets more go.
        is_return: all is as it was confirmed last, and something that kept more was only saved in between.
    """

    kept: TopicPolicy
    loosened: tuple[Loosened, ...]
    is_return: bool


class Judgement(NamedTuple):
    """A verdict on an edit: which limits wait, and which hold meanwhile.

    Attributes:
        waiting: (log dir, topic) -> why its limits wait, unless somebody confirmed them.
        of_all: log dir -> why settings for all topics alike wait.
        withheld: log dir -> why nothing in it may go.
        let_through: topics whose limits let more go than before, but not so much that they wait.
        broker: the values for all topics alike that hold.
    """

    waiting: Mapping[tuple[str, str], Reason]
    of_all: Mapping[str, Reason]
    withheld: Mapping[str, Reason]
    let_through: frozenset[str]
    broker: BrokerPolicy

    @property
    def log_dirs(self) -> frozenset[str]:
        """The log dirs in which something waits."""
        return frozenset([path for path, _ in self.waiting]) | self.of_all.keys() | self.withheld.keys()


PolicyOf = Callable[[PartitionFacts], TopicPolicy]
_Key = tuple[str, TopicPartition]


def edit_of(facts: PartitionFacts, policy: TopicPolicy, confirmed: Confirmed | None) -> Edit | None:
    """Return the keys that let more go in a partition than one of the earlier configurations; None without any."""
    if confirmed is None or policy.is_hands_off:
        return None
    kept, found = policy, dict[str, Loosened]()
    for layers in confirmed.earlier:
        before = _policy_of(layers, facts)
        for change in tuple(loosened_topic(before, kept)):
            found[change.key] = change._replace(after=policy.value_of(change.key))
            kept = _with_earlier(kept, change, before)
        if before.is_hands_off:
            kept = before
            break
    if not found:
        return None
    last = _policy_of(confirmed.last, facts) if confirmed.last else policy
    differs = any(loosened_topic(last, policy)) or any(loosened_topic(policy, last))
    return Edit(kept, tuple(found.values()), is_return=confirmed.last is not None and not differs)


def keeping_most(broker: BrokerPolicy, confirmed: Iterable[Confirmed]) -> tuple[BrokerPolicy, tuple[Loosened, ...]]:
    """Return the values for all topics alike that keep most, and the keys whose earlier value keeps more."""
    kept, found = broker, dict[str, Loosened]()
    for layers in (layers for one in confirmed for layers in one.earlier):
        for change in tuple(loosened_broker(layers.broker_policy(), kept)):
            found[change.key] = change._replace(after=broker.value_of(change.key))
            stated = {**kept.stated, change.key: change.before}
            values: dict[str, Any] = {BROKER_KEY[change.key].field: change.before.value}
            kept = replace(kept, stated=stated, **values)
    return kept, tuple(found.values())


def in_force(broker: BrokerPolicy, confirmed: Iterable[Confirmed]) -> BrokerPolicy:
    """Return the values for all topics alike that hold in a run, whether or not they are confirmed later."""
    kept, _ = keeping_most(broker, confirmed)
    return kept if kept.reload_guard else broker


def judge(
    log_dirs: Sequence[LogDirFacts],
    policy_of: PolicyOf,
    request: Request,
    broker: BrokerPolicy,
    confirmed: Mapping[str, Confirmed],
) -> Judgement:
    """Decide which parts of an edit wait. The function is pure.

    Args:
        log_dirs: the facts.
        policy_of: gives the configuration of a partition's topic, as it is saved.
        request: the moment of the run, what was confirmed, and what a plan of everything let through before.
        broker: what is saved for all topics alike.
        confirmed: log dir -> the configurations to compare with; a log dir without an entry is not compared.
    """
    kept, of_brokers = keeping_most(broker, confirmed.values())
    is_off = not kept.reload_guard and not any(one.unreadable for one in confirmed.values())
    if not confirmed or is_off or _is_switched_off(broker):
        return Judgement({}, {}, {}, frozenset(), broker)
    withheld = dict(_unless_confirmed(_withheld(confirmed), request))
    stated_last = [one.last.broker_policy() for one in confirmed.values() if one.last]
    because = [
        (change, why)
        for change in of_brokers
        if (why := _why(change)) and any(last.value_of(change.key).value != change.after.value for last in stated_last)
    ]
    of_all = dict(_unless_confirmed(((path, _reason(because)) for path in confirmed if because), request))
    edits = dict(_edits(log_dirs, policy_of, confirmed))
    shares = _newly_due(log_dirs, edits, policy_of, request) if request.let_through is None else {}
    of_topics = defaultdict[tuple[str, str], list[Edit]](list)
    for (path, (topic, _)), edit in edits.items():
        of_topics[path, topic].append(edit)
    waiting, let_through = {}, set()
    for (path, topic), here in of_topics.items():
        guard = _guard_of(topic, here, shares, request)
        if guard is None:
            let_through.add(topic)
        elif unless_confirmed(guard, f"{path}/{topic}", request):
            waiting[path, topic] = guard
    return Judgement(waiting, of_all, withheld, frozenset(let_through), kept if of_all else broker)


def _is_switched_off(broker: BrokerPolicy) -> bool:
    """Return whether a person switched the guard off for one run, by ``--set``. No file can do so by itself."""
    return not broker.reload_guard and broker.value_of("reload.guard").layer is Layer.SET


def _unless_confirmed(guards: Iterable[tuple[str, Reason]], request: Request) -> Iterator[tuple[str, Reason]]:
    return ((path, guard) for path, guard in guards if unless_confirmed(guard, path, request))


def _withheld(confirmed: Mapping[str, Confirmed]) -> Iterator[tuple[str, Reason]]:
    for path, one in confirmed.items():
        if one.unreadable:
            yield path, Reason(ReasonCode.RELOAD_GUARD, f"{_WAITS}: {one.unreadable}")
        elif one.lost_metadata:
            text = "the limits confirmed last came from the cluster metadata, which is no longer found"
            yield path, Reason(ReasonCode.RELOAD_GUARD, f"{_WAITS}: {text}")


def _edits(
    log_dirs: Sequence[LogDirFacts], policy_of: PolicyOf, confirmed: Mapping[str, Confirmed]
) -> Iterator[tuple[_Key, Edit]]:
    for log_dir in log_dirs:
        one = confirmed.get(log_dir.path)
        for facts in (facts for facts in log_dir.partitions if isinstance(facts, PartitionFacts)):
            if edit := edit_of(facts, policy_of(facts), one):
                yield (facts.log_dir, facts.topic_partition), edit


def _guard_of(
    topic: str, edits: Sequence[Edit], shares: Mapping[str, tuple[int, int]], request: Request
) -> Reason | None:
    """Return why the limits of a topic wait; None if they may hold at once."""
    changes = {change.key: change for edit in edits for change in edit.loosened}
    edited = [change for edit in edits for change in edit.loosened if not edit.is_return]
    because = [(change, why) for change in {change.key: change for change in edited}.values() if (why := _why(change))]
    if because:
        return _reason(because)
    if request.let_through is not None:
        reason = None if topic in request.let_through else "how much becomes due is not known yet"
    else:
        newly_bytes, all_bytes = shares.get(topic, (0, 0))
        reason = None
        if newly_bytes > NEWLY_DUE_MAX * all_bytes:
            share = share_beside(newly_bytes / all_bytes, NEWLY_DUE_MAX)
            reason = f"{newly_bytes} of the topic's {all_bytes} bytes become due: {share}, more than half"
    return _reason([(change, reason) for change in changes.values()]) if reason else None


def _newly_due(
    log_dirs: Sequence[LogDirFacts], edits: Mapping[_Key, Edit], policy_of: PolicyOf, request: Request
) -> dict[str, tuple[int, int]]:
    """Return topic -> the bytes that retention takes by its edit and would not take without it, and all its bytes."""
    found = dict.fromkeys((topic for _, (topic, _) in edits), (0, 0))
    for facts in (facts for log_dir in log_dirs for facts in log_dir.partitions):
        topic = facts.topic_partition.topic
        if topic in found and isinstance(facts, PartitionFacts):
            newly_bytes, all_bytes = found[topic]
            if edit := edits.get((facts.log_dir, facts.topic_partition)):
                newly_bytes += sum(segment.size_bytes for segment in newly_due(facts, policy_of(facts), edit, request))
            found[topic] = newly_bytes, all_bytes + facts.size_bytes
    return found


def newly_due(facts: PartitionFacts, policy: TopicPolicy, edit: Edit, request: Request) -> Sequence[SegmentFacts]:
    """Return the segments that retention takes by an edit, and would not take without it."""
    if request.assume_committed and facts.high_watermark is None:
        facts = replace(facts, high_watermark=facts.log_end_offset)
    before = 0 if edit.kept.is_hands_off else retention(facts, edit.kept, request.now_ms).deleted
    return facts.segments[before : retention(facts, policy, request.now_ms).deleted]


def _with_earlier(policy: TopicPolicy, change: Loosened, before: TopicPolicy) -> TopicPolicy:
    """Return a policy with the earlier value of one key. An action of ``cleanup.policy`` stays only if both values have
    it.
    """
    value, stated = change.before.value, change.before
    if change.key == "cleanup.policy":
        both = tuple(name for name in policy.cleanup_policy.split(",") if name in before.cleanup_policy.split(","))
        value, stated = ",".join(both), change.before._replace(value=both)
    values: dict[str, Any] = {TOPIC_KEY[change.key].field: value}
    return replace(policy, stated={**policy.stated, change.key: stated}, **values)


def _policy_of(layers: ConfigLayers, facts: PartitionFacts) -> TopicPolicy:
    return layers.policy_for(facts.topic_partition.topic, compacted_before=facts.cleaner_checkpoint is not None)


def _reason(because: Sequence[tuple[Loosened, str]]) -> Reason:
    """Return the reason of the guard rail; equal causes are named once, behind the last key."""
    told = [f"{change.told}: {why}" for change, why in because]
    if len({why for _, why in because}) == 1:
        told = [f"{' and '.join(change.told for change, _ in because)}: {because[0][1]}"]
    return Reason(ReasonCode.RELOAD_GUARD, f"{_WAITS}: {'; '.join(told)}", limit=Limit(because[0][0].after))


def _why(change: Loosened) -> str | None:
    """Return why a key waits in any case; None if the bytes that become due decide."""
    if change.was_unknown:
        return "nobody stated it before, so all was kept"
    if change.key == "cleanup.policy":
        was = str(change.before.shown).split(",")
        return f"{' and '.join(name for name in str(change.after.shown).split(',') if name not in was)} is added"
    if change.key in _GUARD_RAILS:
        return "a guard rail grows weaker"
    if change.key in _SWITCHES or _is_none(change.before.value):
        return "a limit where there was none"
    times = change.shrinking
    if times < TIMES_SHORTER:
        return None
    key = TOPIC_KEY[change.key]
    return "down to 0" if isinf(times) else f"{times:,.0f} times {'shorter' if key.unit is ValueUnit.MS else 'smaller'}"


def _is_none(value: object) -> bool:
    return not isinstance(value, int | float) or value <= NO_LIMIT or value in (LONG_MAX, inf)
