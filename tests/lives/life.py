"""A life as data: steps that a seed draws, each of which means something without those before it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, Self

HOUR_MS: Final = 3_600_000
TOPICS: Final = ("clicks", "orders", "events")
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
STEPS: Final = 50
STOPS: Final = ("kill", "kill", "power", "power", "full", "error")
"""What may end a command: SIGKILL, a power loss, a full disk, an error of the disk."""
BEHIND_THE_END: Final = 1 << 20
"""More changes than a command makes: the power goes behind the last one."""
LOOKS: Final = (
    "doctor",
    "doctor",
    "doctor",
    "verify",
    "preflight",
    "topics",
    "explain",
    "history",
    "dump",
    "lookup",
    "prove-erased",
    "restore",
    "clean -n",
    "free -n",
    "config show",
    "digest",
    "export",
)
"""Commands that change nothing in a log dir."""


@dataclass(frozen=True, slots=True)
class Happening:
    """A step of a life: what happens, with options that JSON can hold."""

    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        told = (f"{name}={value}" for name, value in self.options.items() if value not in (None, False))
        return " ".join((self.kind, *told))


@dataclass(frozen=True, slots=True)
class LifeStory:
    """The steps, and whether Kafka's own classes take part."""

    happenings: tuple[Happening, ...]
    has_broker: bool = False
    seed: int | None = None
    """From which it was drawn."""

    def of(self, numbers: list[int]) -> Self:
        """Return the life with these steps alone."""
        return type(self)(tuple(self.happenings[number] for number in numbers), self.has_broker, self.seed)

    def to_json(self) -> str:
        """Return a line for each step."""
        lines = ",\n  ".join(json.dumps([step.kind, step.options]) for step in self.happenings)
        return (
            f'{{"seed": {json.dumps(self.seed)}, "broker": {json.dumps(self.has_broker)}, "steps": [\n  {lines}\n]}}\n'
        )

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what ``to_json`` wrote."""
        read = json.loads(text)
        steps = tuple(Happening(kind, options) for kind, options in read["steps"])
        return cls(steps, read.get("broker", False), read.get("seed"))


def drawn(seed: int, steps: int = STEPS, *, has_broker: bool = False, is_whole: bool = False) -> LifeStory:
    """Draw a life. Its first steps make the topics.

    Args:
        seed: the seed.
        steps: how many.
        has_broker: Kafka's classes take part.
        is_whole: a whole broker takes part; without steps that leave it a directory that it does not know.
    """
    dice = Random(f"life {seed}")
    kinds = {**_KINDS, **(_OF_THE_BROKER if has_broker else {})}
    if is_whole:
        of_life = {kind: drawn for kind, drawn in _KINDS.items() if kind not in _NOT_OF_A_BROKER}
        kinds = {**of_life, **_OF_A_WHOLE_BROKER}
    happenings = [Happening("policy", _policy(dice) | {"topic": topic}) for topic in TOPICS]
    if not is_whole:
        happenings += [Happening("legacy", _legacy(dice) | {"topic": t}) for t in TOPICS if dice.random() < _OLD]
    happenings += [Happening("produce", _produce(dice) | {"topic": topic, "roll": True}) for topic in TOPICS]
    while len(happenings) < steps:
        if dice.random() < _SCENES:
            happenings += _scene(dice, kinds)
            continue
        happenings.append(_any(dice, kinds))
        if (kind := happenings[-1].kind) in _FOLLOWED and dice.random() < 0.35:
            following = dice.choice(_FOLLOWED[kind])
            happenings.append(Happening(following, kinds[following][1](dice)))
    return LifeStory(tuple(happenings[:steps]), has_broker, seed)


def _any(dice: Random, kinds: Kinds) -> Happening:
    (kind,) = dice.choices(list(kinds), weights=[weight for weight, _ in kinds.values()])
    return Happening(kind, kinds[kind][1](dice))


def _scene(dice: Random, kinds: Kinds) -> Iterator[Happening]:
    """Draw steps on one topic that must meet; now and then another step comes between."""
    for step in dice.choice(_SCENES_OF)(dice, dice.choice(TOPICS)):
        if dice.random() < 0.1:
            yield _any(dice, kinds)
        yield step


# ---- what each kind of step is told -------------------------------------------------------------------------------


def _policy(dice: Random) -> dict[str, Any]:
    """The configuration of a topic."""
    cleanup = dice.choice(("delete", "delete", "compact", "compact", "compact,delete"))
    lag_ms = dice.choice((0, 0, 0, 0, 2 * HOUR_MS))
    return {
        "topic": dice.choice(TOPICS),
        "cleanup": cleanup,
        "retention_ms": dice.choice((None, -1, 2 * HOUR_MS, 24 * HOUR_MS, 24 * HOUR_MS, 7 * 24 * HOUR_MS)),
        "retention_bytes": dice.choice((None, None, None, 900, 3000)),
        "delete_retention_ms": dice.choice((0, HOUR_MS, 24 * HOUR_MS)),
        "min_compaction_lag_ms": lag_ms,
        **({"max_compaction_lag_ms": dice.choice((2 * HOUR_MS, 24 * HOUR_MS))} if dice.random() < 0.2 else {}),
        **({"dirty_ratio": dice.choice((0.3, 0.5, 0.9))} if dice.random() < 0.25 else {}),
        "file": dice.choice(("plain", "plain", "symlink", "half", "fifo")),
    }


def _produce(dice: Random) -> dict[str, Any]:
    return {
        "topic": dice.choice(TOPICS),
        "dice": dice.randrange(1 << 30),
        "batches": dice.randrange(1, 5),
        "by": dice.choice((None, None, 1, 2, 3)),
        "transactional": dice.random() < 0.4,
        "codec": dice.choice(CODECS),
        "roll": dice.random() < 0.6,
        "uncommitted": dice.random() < 0.1,
    }


def _end(dice: Random) -> dict[str, Any]:
    return {"topic": dice.choice(TOPICS), "by": dice.choice((1, 2, 3)), "abort": dice.random() < 0.5}


def _roll(dice: Random) -> dict[str, Any]:
    return {"topic": dice.choice(TOPICS)}


def _wait(dice: Random) -> dict[str, Any]:
    return {
        "ms": dice.choice(
            (1_000, dice.randrange(10_000, 60_000), 70_000, HOUR_MS, 3 * HOUR_MS, 30 * HOUR_MS, 8 * 24 * HOUR_MS)
        )
    }


def _clock(dice: Random) -> dict[str, Any]:
    return {"ms": dice.choice((-HOUR_MS, HOUR_MS, 90 * 24 * HOUR_MS, -24 * HOUR_MS))}


def _stop(dice: Random, share: float = 0.35) -> dict[str, Any]:
    """End some commands before a step, which may lie behind their end."""
    if dice.random() > share:
        return {}
    stop, at = dice.choice(STOPS), int(dice.expovariate(1 / 15))
    if stop == "power" and dice.random() < 0.4:
        at = BEHIND_THE_END
    return {"stop": stop, "at": at, "dice": dice.randrange(1 << 30)}


def _ended(dice: Random, first: int, end: int) -> dict[str, Any]:
    """End a command before one of these changes of its."""
    return {
        "stop": dice.choice(("kill", "power", "full", "error", "error")),
        "at": dice.randrange(first, end),
        "dice": dice.randrange(1 << 30),
    }


def _clean(dice: Random) -> dict[str, Any]:
    return {
        "at_once": dice.random() < 0.4,
        "yes": dice.random() < 0.6,
        "only": dice.choice((None, None, None, None, "retention", "compaction")),
        "asked": (is_asked := dice.random() < 0.25),
        "exact": is_asked and dice.random() < 0.4,
        **_stop(dice),
    }


def _maybe_asked(dice: Random) -> dict[str, Any]:
    """Now and then, a dry run comes before the command."""
    return {"asked": True} if dice.random() < 0.2 else {}


def _free(dice: Random) -> dict[str, Any]:
    return {"compact": dice.random() < 0.5, "yes": dice.random() < 0.6, **_maybe_asked(dice), **_stop(dice)}


def _delete_records(dice: Random) -> dict[str, Any]:
    return {**_pick_share(dice), **_maybe_asked(dice), **_stop(dice)}


def _move(dice: Random) -> dict[str, Any]:
    stopped: dict[str, Any] = {"stop": dice.choice(STOPS), "at": int(dice.expovariate(1 / 25))}
    stopped |= {"dice": dice.randrange(1 << 30)}
    return {"topic": dice.choice(TOPICS), **_maybe_asked(dice), **(stopped if dice.random() < 0.6 else {})}


def _restore(dice: Random) -> dict[str, Any]:
    return {"topic": dice.choice((None, *TOPICS)), **_maybe_asked(dice), **_stop(dice)}


def _plain(dice: Random) -> dict[str, Any]:
    return _stop(dice)


def _repair(dice: Random) -> dict[str, Any]:
    return {**_maybe_asked(dice), **_stop(dice)}


def _look(dice: Random) -> dict[str, Any]:
    return {"command": dice.choice(LOOKS), "topic": dice.choice(TOPICS), "pick": int(dice.random() * 1000) / 1000}


def _pick(dice: Random) -> dict[str, Any]:
    return {"topic": dice.choice(TOPICS), "pick": int(dice.random() * 1000) / 1000, "more": dice.random() < 0.5}


def _erase(dice: Random) -> dict[str, Any]:
    return {**_pick(dice), **_maybe_asked(dice), **_stop(dice)}


def _pick_one(dice: Random) -> dict[str, Any]:
    return {"topic": dice.choice(TOPICS), "pick": int(dice.random() * 1000) / 1000}


def _spoil_log(dice: Random) -> dict[str, Any]:
    return {**_pick_one(dice), "how": dice.choice(("empty", ".swap", ".cleaned"))}


def _set_dir_aside(dice: Random) -> dict[str, Any]:
    return {"topic": dice.choice(TOPICS), "form": dice.choice(("stray", "delete"))}


def _edited(dice: Random) -> dict[str, Any]:
    drawn = _policy(dice)
    del drawn["file"]
    return drawn | {"delay_ms": dice.randrange(40)}


def _legacy(dice: Random) -> dict[str, Any]:
    return {"dice": dice.randrange(1 << 30), "form": dice.randrange(1 << 10), "segments": dice.randrange(2, 6)}


def _cluster(dice: Random) -> dict[str, Any]:
    return {"retention_ms": dice.choice((2 * HOUR_MS, 24 * HOUR_MS, 7 * 24 * HOUR_MS))}


def _import(dice: Random) -> dict[str, Any]:
    return {"topic": dice.choice(TOPICS), **_stop(dice)}


def _both(dice: Random) -> dict[str, Any]:
    return {
        "first": dice.choice(("clean", "clean at once", "free", "restore")),
        "second": dice.choice(("clean", "clean at once", "doctor", "verify", "topics", "preflight", "restore")),
    }


def _repack(dice: Random) -> dict[str, Any]:
    codec = dice.choice((None, None, "none", "lz4", "zstd:9"))
    return {"codec": codec, "at_once": dice.random() < 0.4, "apart": dice.random() < 0.3, **_stop(dice)}


def _as_of(dice: Random) -> dict[str, Any]:
    back_ms = dice.choice((0, 500, 70_000, HOUR_MS, 3 * HOUR_MS, 30 * HOUR_MS))
    return {
        "back_ms": back_ms,
        "by_offsets": dice.random() < 0.3,
        "incomplete": dice.random() < 0.4,
        **_stop(dice, 0.15),
    }


def _daemon_start(dice: Random) -> dict[str, Any]:
    return {"bold": dice.random() < 0.7}


def _daemon_turn(dice: Random) -> dict[str, Any]:
    beside = dice.choice(("clean", "clean at once", "restore", "doctor", "free")) if dice.random() < 0.2 else None
    kill = dice.randrange(1, 40) if dice.random() < 0.2 else 0
    return {"by": dice.choice((None, "usr1", "usr1", "hup")), "kill": kill, "beside": beside}


def _daemon_end(dice: Random) -> dict[str, Any]:
    return {"by": dice.choice(("term", "kill"))}


def _restore_tier(dice: Random) -> dict[str, Any]:
    stopped = {"stop": dice.choice(("kill", "full", "error")), "at": int(dice.expovariate(1 / 25)), "dice": 0}
    return {**_pick_share(dice), **(stopped if dice.random() < 0.5 else {})}


def _pick_share(dice: Random) -> dict[str, Any]:
    return {"topic": dice.choice(TOPICS), "share": int(dice.random() * 1000) / 1000}


def _chown(dice: Random) -> dict[str, Any]:
    return {"uid": dice.choice((0, 1234))}


def _start(dice: Random) -> dict[str, Any]:
    return {"unclean": dice.random() < 0.5}


def _broker(dice: Random) -> dict[str, Any]:
    return {"dice": dice.randrange(1 << 30), "kill": dice.random() < 0.6}


def _kafka_cleans(dice: Random) -> dict[str, Any]:
    return {"keep": dice.random() < 0.5}


def _workload(dice: Random) -> dict[str, Any]:
    return {"topic": dice.choice(TOPICS), "seed": dice.randrange(1 << 30), "steps": dice.randrange(2, 12)}


def _nothing(_dice: Random) -> dict[str, Any]:
    return {}


def _bring_back(dice: Random) -> dict[str, Any]:
    return {"topic": dice.choice((None, None, *TOPICS))}


Kinds = Mapping[str, tuple[float, Callable[[Random], dict[str, Any]]]]
_KINDS: Final[Kinds] = {
    "policy": (4, _policy),
    "produce": (14, _produce),
    "end": (4, _end),
    "roll": (3, _roll),
    "wait": (6, _wait),
    "clock": (1, _clock),
    "clean": (12, _clean),
    "free": (2, _free),
    "delete-records": (2, _delete_records),
    "erase": (1, _erase),
    "move": (0.7, _move),
    "restore": (2, _restore),
    "release": (1, _roll),
    "apply": (1, _plain),
    "repair": (1.5, _repair),
    "sweep": (1, _plain),
    "look": (4, _look),
    "foretold": (1, _roll),
    "edited": (0.7, _edited),
    "cut-log": (0.4, _pick_one),
    "spoil-log": (0.4, _spoil_log),
    "set-dir-aside": (0.4, _set_dir_aside),
    "bring-dir-home": (0.8, _nothing),
    "snapshot": (1, _nothing),
    "bring-back": (1, _bring_back),
    "set-aside": (1.5, _pick),
    "put-back": (1, _nothing),
    "move-away": (0.5, _pick),
    "move-home": (0.5, _nothing),
    "remove-log": (0.4, _pick),
    "remove-derived": (1, _pick),
    "empty-derived": (1, _pick),
    "cluster": (1, _cluster),
    "daemon": (0.3, _nothing),
    "daemon-start": (0.3, _daemon_start),
    "daemon-turn": (1, _daemon_turn),
    "daemon-end": (0.3, _daemon_end),
    "copied": (1, _plain),
    "repack": (1, _repack),
    "as-of": (0.7, _as_of),
    "fetch": (0.4, _nothing),
    "restore-tier": (0.5, _restore_tier),
    "import": (0.4, _import),
    "both": (1, _both),
    "chown": (0.5, _chown),
}
"""The kinds of steps, each with its weight."""
_FOLLOWED: Final[Mapping[str, tuple[str, ...]]] = {
    "clean": ("restore", "clean"),
    "delete-records": ("restore",),
    "set-aside": ("clean", "clean", "free", "sweep"),
    "move-away": ("clean", "repair"),
    "remove-log": ("clean", "look"),
    "spoil-log": ("clean", "look"),
    "restore": ("wait", "clean", "delete-records"),
    "policy": ("apply", "both"),
    "bring-back": ("clean", "restore"),
}
"""What often comes right behind a step."""
_OF_THE_BROKER: Final[Kinds] = {
    "start": (5, _start),
    "kafka-cleans": (4, _kafka_cleans),
    "workload": (5, _workload),
}
_OF_A_WHOLE_BROKER: Final[Kinds] = {"broker": (9, _broker)}
_NOT_OF_A_BROKER: Final = frozenset({"import", "move", "set-dir-aside", "bring-dir-home", "cluster"})


# ---- scenes: steps that must meet ----------------------------------------------------------------------------------


def _step(dice: Random, kind: str, /, **said: Any) -> Happening:
    """Draw a step of which something is said."""
    return Happening(kind, _KINDS[kind][1](dice) | said)


def _stated(dice: Random, topic: str, **said: Any) -> Happening:
    calm = {"file": dice.choice(("plain", "plain", "symlink")), "min_compaction_lag_ms": 0}
    return _step(dice, "policy", topic=topic, **{**calm, **said})


def _written(dice: Random, topic: str, segments: int) -> Iterator[Happening]:
    """Segments that limits and rounds may take."""
    for _ in range(segments):
        by = {"transactional": False} if dice.random() < 0.7 else {}
        yield _step(dice, "produce", topic=topic, roll=True, uncommitted=False, **by)


def _cleaned(dice: Random, /, **said: Any) -> Happening:
    """A run that does all that is due, and mostly to its end."""
    share = 0.1
    return Happening(
        "clean",
        {
            "at_once": dice.random() < 0.5,
            "yes": True,
            "only": None,
            "asked": dice.random() < 0.3,
            "exact": dice.random() < 0.3,
        }
        | _stop(dice, share)
        | said,
    )


def _due(dice: Random, topic: str) -> Iterator[Happening]:
    """Some segments are due, by a little or by much, and the others are not; a person wants them back.

    What takes them, or brings them back, may end amid its changes, and is begun anew: the log never lacks its middle,
    and a segment that came back before is on hold.
    """
    limit_ms, is_wanted = dice.choice((2 * HOUR_MS, 24 * HOUR_MS)), dice.random() < 0.5
    cleanup = "delete" if is_wanted else dice.choice(("delete", "compact,delete"))  # no restore undoes a round
    yield _step(dice, "release", topic=topic)
    yield _stated(dice, topic, cleanup=cleanup, retention_ms=limit_ms)
    yield from _written(dice, topic, dice.randrange(1, 4))
    yield _step(dice, "wait", ms=limit_ms + dice.choice((HOUR_MS, 6 * HOUR_MS)))
    yield from _written(dice, topic, 1)
    yield _step(dice, "wait", ms=dice.choice((70_000, HOUR_MS, limit_ms - HOUR_MS)))
    yield from _written(dice, topic, 1)
    if not is_wanted and dice.random() < 0.7:
        yield _cleaned(dice, at_once=True, **_ended(dice, 10, 15))
    yield _cleaned(dice, at_once=not is_wanted)
    if is_wanted:
        if dice.random() < 0.5:
            yield _step(dice, "wait", ms=dice.randrange(1_000, 59_000))
            yield _cleaned(dice)
        for _ in range(dice.randrange(1, 4)):
            yield _step(dice, "restore", topic=dice.choice((topic, None)), **_ended(dice, 12, 50))
        yield _step(dice, "restore", topic=dice.choice((topic, None)))
        yield _cleaned(dice)


def _gap(dice: Random, topic: str) -> Iterator[Happening]:
    """A person takes a segment out of the middle of a log, before a run comes; what lies below it may be due."""
    limit_ms = dice.choice((-1, 24 * HOUR_MS))
    cleanup = dice.choice(("compact", "delete") if limit_ms < 0 else ("delete", "compact,delete"))
    yield _stated(dice, topic, cleanup=cleanup, retention_ms=limit_ms, retention_bytes=None)
    yield from _written(dice, topic, dice.randrange(1, 3))
    if limit_ms > 0:
        yield _step(dice, "wait", ms=limit_ms + 6 * HOUR_MS)
    yield from _written(dice, topic, 1)
    taken = dice.choice(("set-aside", "set-aside", "move-away", "remove-log"))
    yield _step(dice, taken, topic=topic, pick=0.999, more=dice.random() < (0.5 if taken == "set-aside" else 0.2))
    yield from _written(dice, topic, dice.randrange(1, 3))
    if dice.random() < 0.3:
        yield _step(dice, "wait")
    yield _cleaned(dice)
    yield _step(dice, dice.choice(("put-back", "move-home", "clean", "look", "free")))


def _tombstones(dice: Random, topic: str) -> Iterator[Happening]:
    """Rounds come before and behind the horizon of tombstones."""
    delete_ms = dice.choice((HOUR_MS, 24 * HOUR_MS))
    yield _stated(dice, topic, cleanup="compact", retention_ms=None, delete_retention_ms=delete_ms)
    yield from _written(dice, topic, 3)
    yield _cleaned(dice)
    for _ in range(2):
        yield _step(dice, "wait", ms=dice.choice((1_000, delete_ms // 2, delete_ms + 70_000)))
        yield from _written(dice, topic, 1)
        yield _cleaned(dice)


def _cut(dice: Random, topic: str) -> Iterator[Happening]:
    """Something ends a run amid its changes of one log; the next one goes on."""
    yield _stated(dice, topic, cleanup=dice.choice(("compact", "compact,delete")), retention_ms=7 * 24 * HOUR_MS)
    yield _cleaned(dice)
    for _ in range(2):
        yield from _written(dice, topic, 2)
        yield _cleaned(dice, **_ended(dice, 15, 45))
    yield _cleaned(dice)


def _two_say(dice: Random, topic: str) -> Iterator[Happening]:
    """The configuration says other than the cluster, which holds where nobody can read it."""
    yield _step(dice, "cluster", retention_ms=2 * HOUR_MS)
    file = dice.choice(("fifo", "fifo", "symlink", "half"))
    yield _stated(dice, topic, cleanup=dice.choice(("delete", "compact")), retention_ms=-1, file=file)
    yield from _written(dice, topic, 1)
    yield _step(dice, "wait", ms=dice.choice((3 * HOUR_MS, 30 * HOUR_MS)))
    yield from _written(dice, topic, 1)
    yield _cleaned(dice)


def _small_batches(dice: Random, topic: str) -> Iterator[Happening]:
    """Batches of a record or two, which the cluster says have one replica."""
    yield _step(dice, "cluster", retention_ms=7 * 24 * HOUR_MS)
    yield _stated(dice, topic, cleanup=dice.choice(("delete", "compact")), retention_ms=-1, retention_bytes=None)
    for _ in range(dice.randrange(1, 4)):
        yield _step(dice, "produce", topic=topic, batches=dice.randrange(6, 14), roll=True, uncommitted=False)
    for _ in range(dice.randrange(1, 3)):
        yield _step(dice, "repack", apart=dice.random() < 0.2)
    yield _step(dice, dice.choice(("clean", "restore", "repair", "erase", "move")))


def _transactions(dice: Random, topic: str) -> Iterator[Happening]:
    """Transactions end within one segment or behind it, and rounds meet them before and behind the horizon."""
    said = {"delete_retention_ms": dice.choice((0, HOUR_MS)), "dirty_ratio": 0.0}
    yield _stated(dice, topic, cleanup="compact", retention_ms=None, **said)
    by, calm = dice.choice((1, 2, 3)), {"topic": topic, "uncommitted": False}
    for _ in range(dice.randrange(1, 3)):
        yield _step(dice, "produce", **calm, by=by, transactional=True, roll=dice.random() < 0.5)
        yield _step(dice, "end", topic=topic, by=by, abort=dice.random() < 0.3)
        for wait_ms in (dice.choice((1_000, 3 * HOUR_MS)), 3 * HOUR_MS):
            yield _step(dice, "produce", **calm, by=None, roll=True)
            yield _cleaned(dice)
            yield _step(dice, "wait", ms=wait_ms)


_BETWEEN_TURNS: Final = (
    "wait",
    "produce",
    "policy",
    "clean",
    "restore",
    "delete-records",
    "set-aside",
    "put-back",
    "remove-log",
    "bring-back",
    "clock",
)


def _resident(dice: Random, topic: str) -> Iterator[Happening]:
    """A daemon stays alive while the log dir and its configuration change."""
    yield _stated(dice, topic, file=dice.choice(("plain", "symlink")))
    yield _step(dice, "daemon-start")
    for _ in range(dice.randrange(2, 5)):
        yield from _written(dice, topic, dice.randrange(1, 3))
        yield _step(dice, dice.choice(_BETWEEN_TURNS))
        yield _step(dice, "daemon-turn")
    yield _step(dice, "daemon-end")


_OLD: Final = 0.1
"""How often a topic begins with the formats of old brokers."""
_SCENES: Final = 0.12
"""How often a scene begins, not a step."""
_SCENES_OF: Final = (
    _due, _due, _gap, _gap, _tombstones, _cut, _cut, _two_say, _small_batches, _resident, _transactions,
)  # fmt: skip
