"""Saving is not applying: saved limits that let much more go than those confirmed last wait."""

from __future__ import annotations

from pathlib import Path

import pytest

from cleaner.cli.main import main
from cleaner.config.reader import ConfigurationReader
from cleaner.config.settings import read_settings
from cleaner.daemon import worker as round_module
from cleaner.daemon.configuration import Configuration
from cleaner.daemon.observer import JobKind
from cleaner.daemon.telling import Teller
from cleaner.daemon.worker import Worker
from cleaner.metrics.registry import Metrics
from policies.config.config_keys import LONG_MAX
from storage.names import LIMITS_FILE
from tests.cleaner.daemon.test_worker import Recorded, SameProcess, Supervised
from tests.metadata_dirs import session, write_metadata
from tests.partition_dirs import DAY_MS, NOW_MS, FakeClock, PartitionDir, committed, keyed

OPTIONS = (f"clock.jump.max={LONG_MAX}",)
IN_DEFAULTS = '[defaults]\ncleanup.policy = "delete"\nretention.ms = '
AGES_DAYS = (20, 15, 10, 5, 2, 0)


class World:
    """A daemon with a configuration file, over topics of which each segment is a few days older than the next."""

    def __init__(self, place: Path, text: str, *topics: str, metadata: dict[str, dict[str, str]] | None = None) -> None:
        self.place, self.log_dir, self.file = place, place / "data", place / "c.toml"
        committed(self.log_dir, *[_drawn(self.log_dir, f"{topic}-0") for topic in topics or ("orders",)])
        if metadata is not None:
            write_metadata(self.log_dir, **metadata)
        self.clock, self.log, self.metrics = FakeClock(), Recorded(), Metrics()
        self.file.write_text(text)
        self.start()

    def start(self) -> None:
        """Start the daemon; or again, as after a reboot."""
        reader = ConfigurationReader(lambda: read_settings(self.file), [self.log_dir], OPTIONS, keeps_settings=True)
        self.configuration = Configuration(reader.read)
        teller = Teller(self.log, self.metrics)
        teller.begin_round = lambda _number: None  # type: ignore[method-assign]
        self.worker = Worker(self.configuration, self.clock, teller, Supervised(), observing=False)

    def after(self, span_ms: int) -> None:
        self.clock.time_ms += span_ms
        self.clock.sleep(span_ms / 1000)
        self.worker.tick()

    def goes_on(self) -> None:
        """Let every job have its turn, some more than once."""
        for _ in range(8):
            self.after(60_000)

    def saved(self, text: str) -> None:
        self.file.write_text(text)
        self.goes_on()

    def left(self, topic: str = "orders") -> int:
        return len(list((self.log_dir / f"{topic}-0").glob("*.log")))

    def apply(self, *options: str) -> int:
        return main(["config", "apply", "--config", str(self.file), "--log-dir", str(self.log_dir), *options])

    @property
    def waiting(self) -> int:
        lines = self.metrics.text().decode().splitlines()
        (line,) = [line for line in lines if line.startswith("logcleaner_unconfirmed_limits{")]
        return int(float(line.rpartition(" ")[2]))


def _drawn(log_dir: Path, name: str) -> PartitionDir:
    partition = PartitionDir(log_dir, name)
    for base, days in zip(range(0, 2 * len(AGES_DAYS), 2), AGES_DAYS, strict=True):
        partition.segment(base, keyed(base, "a=1", "b=2", timestamp_ms=NOW_MS - days * DAY_MS))
    return partition


def of(topic: str = "orders", **keys: object) -> str:
    stated = {"cleanup.policy": "delete", **{key.replace("_", "."): value for key, value in keys.items()}}
    return f'[topics."{topic}"]\n' + "".join(f'{key} = "{value}"\n' for key, value in stated.items())


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(round_module, "CompactingChild", SameProcess)


def test_a_slip_in_a_saved_file_deletes_nothing_until_it_is_confirmed(tmp_path: Path, capsys) -> None:
    world = World(tmp_path, of(retention_ms="30d"))
    world.goes_on()
    assert (world.left(), world.waiting) == (6, 0)
    world.saved(of(retention_ms="30m"))
    assert (world.left(), world.waiting) == (6, 1)
    (guard,) = {fields["guard"] for name, fields in world.log.events if name == "reload_held_back"}
    place = f"{world.file} line 3"
    told = f"retention.ms=30m ({place}), before retention.ms=30d (confirmed last: {place}): 1,440 times shorter"
    assert guard == f"RELOAD_GUARD: {world.log_dir}/orders: waits for logcleaner config apply: {told}"
    assert world.apply("-n") == 0
    assert "1,440 times shorter" in capsys.readouterr().out
    world.goes_on()
    assert world.left() == 6
    assert world.apply() == 0
    world.goes_on()
    assert (world.left(), world.waiting) == (1, 0)


def test_neither_a_restart_nor_a_signal_confirms_it(tmp_path: Path) -> None:
    world = World(tmp_path, of(retention_ms="30d"))
    world.goes_on()
    world.file.write_text(of(retention_ms="30m"))
    world.start()
    world.goes_on()
    world.worker.want(lambda schedule: schedule.asked_for(JobKind.RELOAD))
    world.worker.want(lambda schedule: schedule.asked_for_everything())
    world.goes_on()
    assert (world.left(), world.waiting) == (6, 1)


def test_an_edit_before_the_first_retention_is_one_too(tmp_path: Path) -> None:
    world = World(tmp_path, of(retention_ms="30d"))
    world.after(0)
    world.saved(of(retention_ms="30m"))
    assert world.left() == 6


def test_what_keeps_more_holds_at_once_and_counts_as_confirmed(tmp_path: Path) -> None:
    world = World(tmp_path, of(retention_ms="25d") + of("clicks", retention_ms="30d"), "orders", "clicks")
    world.goes_on()
    world.saved(of(retention_ms="250d") + of("clicks", retention_ms="12m"))
    assert (world.left(), world.left("clicks"), world.waiting) == (6, 6, 1)
    world.saved(of(retention_ms="21d") + of("clicks", retention_ms="12m"))  # ten times less than what held meanwhile
    assert world.waiting == 2
    world.saved(of(retention_ms="25d") + of("clicks", retention_ms="30d"))  # all as it was confirmed last
    assert (world.left(), world.left("clicks"), world.waiting) == (6, 6, 0)


def test_what_lets_a_little_more_go_holds_at_once(tmp_path: Path) -> None:
    world = World(tmp_path, of(retention_ms="30d"))
    world.goes_on()
    world.saved(of(retention_ms="12d"))
    assert (world.left(), world.waiting) == (4, 0)
    world.saved(of(retention_ms="4d"))
    assert (world.left(), world.waiting) == (2, 0)  # half of what is left, not more
    world.saved(of(retention_ms="30d"))
    assert world.waiting == 0


def test_more_than_half_of_the_bytes_waits_though_the_limit_is_not_ten_times_shorter(tmp_path: Path) -> None:
    world = World(tmp_path, of(retention_ms="30d"))
    world.goes_on()
    world.saved(of(retention_ms="4d"))
    assert (world.left(), world.waiting) == (6, 1)
    assert world.apply() == 0
    world.goes_on()
    assert world.left() == 2


def test_a_saved_file_that_is_mended_lets_nothing_wait_any_more(tmp_path: Path) -> None:
    world = World(tmp_path, of(retention_ms="30d"))
    world.goes_on()
    world.saved(of(retention_ms="30m"))
    world.saved(of(retention_ms="30d"))
    assert (world.left(), world.waiting) == (6, 0)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (of(retention_ms="-1"), of(retention_ms="400d")),
        (of(retention_bytes="-1"), of(retention_bytes="1")),
        (of(), of(retention_ms="1")),
        ('[topics."orders"]\ncleanup.policy="compact"\n', of(retention_ms="30d")),
        (of(retention_ms="30d"), '[topics."orders"]\ncleanup.policy="compact"\n'),
        (of(retention_ms="30d") + of("o*", retention_ms="1m"), of("o*", retention_ms="1m")),
        (of(retention_ms="30d", max_delete_ratio="0.1"), of(retention_ms="30d")),
        (IN_DEFAULTS + '"30d"\n', IN_DEFAULTS + '"1h"\n'),
        ("", of(retention_ms="30d")),
        (of(file_delete_delay_ms="1h"), of(file_delete_delay_ms="1s")),
    ],
    ids=[
        *("a limit of age", "of size", "where none was said", "delete added", "compact for delete", "a section less"),
        *("a guard rail less", "defaults", "a policy where none was known", "a shorter delay"),
    ],
)  # fmt: skip
def test_each_of_these_waits(tmp_path: Path, before: str, after: str) -> None:
    world = World(tmp_path, before)
    world.goes_on()
    left = world.left()
    world.saved(after)
    assert (world.left(), world.waiting) == (left, 1)
    world.saved(before)
    assert (world.left(), world.waiting) == (left, 0)


def test_a_reload_cannot_turn_the_guard_off(tmp_path: Path) -> None:
    world = World(tmp_path, of(retention_ms="30d"))
    world.goes_on()
    world.saved("reload.guard = false\n" + of(retention_ms="30m"))
    assert (world.left(), world.waiting) == (6, 2)
    world.saved("reload.guard = false\n" + of(retention_ms="30d"))
    assert (world.left(), world.waiting) == (6, 1)
    assert world.apply() == 0
    world.saved("reload.guard = false\n" + of(retention_ms="30m"))
    assert (world.left(), world.waiting) == (1, 0)


def test_whoever_begins_without_it_has_every_edit_applied(tmp_path: Path) -> None:
    world = World(tmp_path, "reload.guard = false\n" + of(retention_ms="30d"))
    world.goes_on()
    world.saved("reload.guard = false\n" + of(retention_ms="30m"))
    assert (world.left(), world.waiting) == (1, 0)


def test_what_the_cluster_changes_holds_at_once_with_an_event(tmp_path: Path) -> None:
    stays = {"cleanup.policy": "delete", "retention.ms": str(30 * DAY_MS)}
    metadata = {"orders": stays, "clicks": {}}
    world = World(tmp_path, of("clicks", retention_ms="30d"), "orders", "clicks", metadata=metadata)
    world.goes_on()
    session(world.log_dir, orders={"cleanup.policy": "delete", "retention.ms": "1000"})
    world.goes_on()
    assert (world.left(), world.left("clicks"), world.waiting) == (1, 6, 0)
    (told,) = [fields for name, fields in world.log.events if name == "cluster_lets_more_go"]
    assert (told["topic"], told["change"].partition(" ")[0]) == ("orders", "retention.ms=1s")


def test_configurations_of_topics_do_not_vanish_with_a_saved_word(tmp_path: Path) -> None:
    stays = {"cleanup.policy": "delete", "retention.ms": str(30 * DAY_MS)}
    defaults = '[defaults]\ncleanup.policy = "delete"\nretention.ms = "1h"\n'
    world = World(tmp_path, defaults, metadata={"orders": stays})
    world.goes_on()
    assert world.left() == 6
    world.saved(f"cluster.metadata = false\n{defaults}")
    assert (world.left(), world.waiting) == (6, 1)
    world.saved(defaults)
    assert (world.left(), world.waiting) == (6, 0)


@pytest.mark.parametrize("damage", [b"", b"00000000 {}\n", b'{"version":1}'])
def test_limits_that_cannot_be_read_hold_everything_back(tmp_path: Path, damage: bytes) -> None:
    world = World(tmp_path, of(retention_ms="30d"))
    world.goes_on()
    (world.log_dir / LIMITS_FILE).write_bytes(damage)
    world.saved(of(retention_ms="12d"))
    assert (world.left(), world.waiting) == (6, 1)
    assert (world.log_dir / LIMITS_FILE).read_bytes() == damage
    assert world.apply() == 0
    world.goes_on()
    assert (world.left(), world.waiting) == (4, 0)
