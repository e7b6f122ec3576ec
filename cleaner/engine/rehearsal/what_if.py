"""Plan the same facts again with other values of a key, for the results that such runs would have.

An answer is the plan that ``--set KEY=VALUE`` would give, with its figures. The facts are those of the plan in force.
Some facts are read only if a policy needs them (``inventory.Needs``). If another value needs more facts, the partition
is surveyed again, once for all values with the same needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from cleaner.engine.inventory import Needs, Survey, survey_again
from cleaner.engine.means import Means
from cleaner.engine.outcome import Outcome, PartitionResult
from cleaner.engine.rehearsal.rehearsal import Rehearsal
from policies.config.config_layers import ConfigLayers
from policies.config.policy import Stated, TopicPolicy
from policies.facts import LogDirFacts, PartitionFacts, UnreadablePartition
from policies.forecast.runway import runway
from policies.forecast.what_if import Question
from policies.plan import PartitionKey, PartitionPlan, Plan
from policies.planning import held_back, plan
from policies.reload import Confirmed
from policies.rescue import Volume
from storage.log_dir import Checkpoints, LogDir

Found = PartitionFacts | UnreadablePartition


@dataclass(frozen=True, slots=True)
class Answer:
    """The plan with one value of a key, and its outcome."""

    value: Stated
    plan: Plan
    outcome: Outcome


class Answered(NamedTuple):
    """A question, with the answers in the order of its values."""

    question: Question
    answers: tuple[Answer, ...]


class _Read(NamedTuple):
    """The facts of a partition, and the needs for which they were read."""

    needs: Needs
    found: Found


@dataclass(slots=True)
class Supposing:
    """Plans again with other values.

    Attributes:
        log_dirs: the log dirs, in the order of the plan.
        survey: the survey that the plan was made from.
        means: of the dry run.
        plan: the plan with the configuration in force, without the compactions that ``outcome`` holds back.
        outcome: the result that executing the plan would have.
        volumes: the file systems of the log dirs.
        doable: returns the part of a plan that can be carried out.
        confirmed: log dir -> the limits with which the saved limits are compared.
        exact: read the data that a compaction would read.
    """

    log_dirs: Sequence[LogDir]
    survey: Survey
    means: Means
    plan: Plan
    outcome: Outcome
    volumes: Sequence[Volume]
    doable: Callable[[Plan], Plan]
    confirmed: Mapping[str, Confirmed]
    exact: bool = False
    _read: dict[PartitionKey, list[_Read]] = field(init=False, default_factory=dict)
    _results: dict[PartitionKey, list[tuple[PartitionPlan, PartitionResult]]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        for partition in self.doable(self.plan).partitions:
            if (result := self.outcome.results.get(partition.key)) and not result.guard:
                self._results[partition.key] = [(partition, result)]

    def answered(self, question: Question) -> Answered:
        """Return the answers to a question.

        Raises:
            InvalidConfigs: a value contradicts the configuration in force.
            CorruptCheckpoint, UnreadableFile: a checkpoint changed since the plan was made, and cannot be read.
        """
        found = {stated.value: self._answer(stated) for stated in sorted(question.values, key=_needs_most_first)}
        return Answered(question, tuple(found[stated.value] for stated in question.values))

    def _answer(self, stated: Stated) -> Answer:
        layers = self.survey.layers.overridden(stated)
        survey = self.survey._replace(layers=layers)
        facts = [
            self._facts(log_dir, planned.facts, survey)
            for log_dir, planned in zip(self.log_dirs, self.plan.log_dirs, strict=True)
        ]
        confirmed = {
            path: one._replace(
                earlier=tuple(earlier.overridden(stated) for earlier in one.earlier),
                last=one.last.overridden(stated) if one.last else None,
            )
            for path, one in self.confirmed.items()
        }
        broker = layers.broker_policy()
        planned = plan(facts, lambda log: _policy_of(layers, log), self.plan.request, broker, confirmed)
        outcome = self._outcome(planned)
        return Answer(stated, held_back(planned, outcome.guards), outcome)

    def _facts(self, log_dir: LogDir, facts: LogDirFacts, survey: Survey) -> LogDirFacts:
        if not facts.partitions:
            return facts
        checkpoints = log_dir.checkpoints()
        found = (self._found(log_dir, known, checkpoints, survey) for known in facts.partitions)
        return replace(facts, partitions=tuple(partition for partition in found if partition is not None))

    def _found(self, log_dir: LogDir, known: Found, checkpoints: Checkpoints, survey: Survey) -> Found | None:
        """Return facts that suffice for the survey's configuration; read them only if no known facts suffice."""
        topic_partition = known.topic_partition
        policy = survey.policy_of(topic_partition, checkpoints.cleaned)
        needs = Needs.of(policy, survey.now_ms)
        read = self._read.setdefault((known.log_dir, topic_partition), [])
        if not read:
            in_force = self.survey.policy_of(topic_partition, checkpoints.cleaned)
            read.append(_Read(Needs.of(in_force, survey.now_ms), known))
        for earlier in read:
            if _suffices(earlier, needs, policy):
                return earlier.found
        found = survey_again(log_dir, known, checkpoints, survey)
        if found is not None:
            read.append(_Read(needs, found))
        return found

    def _outcome(self, planned: Plan) -> Outcome:
        start_seconds = self.means.clock.seconds()
        rehearsal = Rehearsal(self.means, planned.request)
        results = {p.key: self._result(p, rehearsal) for p in self.doable(planned).partitions if p.has_work}
        seconds = self.means.clock.seconds() - start_seconds
        runways = tuple(runway(volume, planned) for volume in self.volumes)
        swept, disk_bytes = self.outcome.swept_bytes, self.outcome.swept_disk_bytes
        return Outcome(True, results, swept, seconds, runways=runways, swept_disk_bytes=disk_bytes)

    def _result(self, partition: PartitionPlan, rehearsal: Rehearsal) -> PartitionResult:
        """Return the figures of a partition; take them from an equal plan if there was one."""
        known = self._results.setdefault(partition.key, [])
        for earlier, result in known:
            if _does_the_same(earlier, partition):
                return result
        if self.exact and partition.compaction:
            self.means.listener.expect(partition.compaction.size_bytes)
        result = rehearsal.result(partition, exact=self.exact)
        known.append((partition, result))
        return result


def _needs_most_first(stated: Stated) -> float:
    """Return a sort key that puts the value first whose facts suffice for all other values."""
    if stated.key == "retention.ms" and isinstance(stated.value, int) and stated.value >= 0:
        return stated.value
    return float("inf")


def _policy_of(layers: ConfigLayers, log: PartitionFacts) -> TopicPolicy:
    return layers.policy_for(log.topic_partition.topic, compacted_before=log.cleaner_checkpoint is not None)


def _suffices(read: _Read, needs: Needs, policy: TopicPolicy) -> bool:
    """Return whether facts that were read for other needs equal the facts that a survey for these needs would find."""
    had, found = read
    if had == needs:
        return True
    if isinstance(found, UnreadablePartition):
        return False
    has_all = needs.first_batches <= had.first_batches and needs.last_stable_offset <= had.last_stable_offset
    return has_all and _has_ends(found, had.ends_before_ms, needs.ends_before_ms, policy)


def _has_ends(log: PartitionFacts, had_ms: int | None, needed_ms: int | None, policy: TopicPolicy) -> bool:
    """Return whether every segment end that time retention needs was read, and no other end matters."""
    if needed_ms == had_ms:
        return True
    if policy.cleanup_compact and policy.min_compaction_lag_ms > 0:
        return False  # the lag goes by the time index alone if the end was not read
    since_ms = float("-inf") if had_ms is None else had_ms
    return needed_ms is None or not any(since_ms <= s.newest_record_ms < needed_ms for s in log.segments)


def _does_the_same(one: PartitionPlan, other: PartitionPlan) -> bool:
    """Return whether two plans of a partition have the same actions, whatever their reasons."""
    acts = [(p.deletion and p.deletion.segments, p.compaction, p.checkpoint_offset) for p in (one, other)]
    policies = [replace(p.policy, stated={}) for p in (one, other)]
    return acts[0] == acts[1] and (not one.compaction or policies[0] == policies[1])
