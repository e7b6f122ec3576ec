"""The configuration in force, and how another one takes its place."""

from __future__ import annotations

import pytest

from cleaner.config.reader import load_layers
from cleaner.config.settings import read_settings
from cleaner.daemon.configuration import Configuration, one_line
from storage.errors import InvalidConfigs
from tests.metadata_dirs import write_metadata
from tests.partition_dirs import PartitionDir


class Files:
    def __init__(self, place) -> None:
        self.path, self.properties, self.data = place / "c.toml", place / "server.properties", place / "data"
        PartitionDir(self.data)
        self.properties.write_text("listeners=PLAINTEXT://:9092\nlog.retention.ms=1000\n")
        self.say()

    def say(self, *lines: str) -> None:
        top = f'log.dirs = ["{self.data}"]\nserver.properties = "server.properties"'
        self.path.write_text("\n".join((top, *lines)))

    def load(self):
        return load_layers(read_settings(self.path))


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)


def test_a_reload_tells_each_key_that_changed(files):
    configuration = Configuration(files.load)
    files.say('[topics.orders]\nretention.ms = "7d"\ncleanup.policy = "delete"')
    assert configuration.reload() == [
        '[topics."orders"] cleanup.policy: unset -> delete',
        '[topics."orders"] retention.ms: unset -> 7d',
    ]
    assert configuration.loaded.layers.policy_for("orders").retention_ms == 7 * 86_400_000
    files.properties.write_text("listeners=PLAINTEXT://:9092\nlog.retention.ms=2000\n")
    assert configuration.reload() == ["server.properties retention.ms: 1s -> 2s"]
    files.say("metrics.listen = 'localhost:9308'", "log.cleaner.backoff.ms = 5")
    assert "metrics.listen: unset -> localhost:9308" in configuration.reload()
    assert configuration.broker.log_cleaner_backoff_ms == 5
    assert configuration.reload() == []


def test_one_that_is_wrong_leaves_the_one_in_force(files):
    configuration = Configuration(files.load)
    before = configuration.loaded
    files.say("[defaults]\nretention.ms = 'soon'\nretention.bytes = 'much'")
    with pytest.raises(InvalidConfigs) as error:
        configuration.reload()
    assert configuration.loaded is before
    assert "\n" not in one_line(str(error.value))
    assert "retention.bytes" in one_line(str(error.value))


def test_it_is_stale_once_a_source_changed_and_not_after_it_was_read_or_refused(files):
    configuration = Configuration(files.load)
    assert configuration.files == (files.path, files.properties)
    assert not configuration.is_stale()
    files.properties.write_text("listeners=PLAINTEXT://:9092\nlog.retention.ms=20000\n")
    assert configuration.is_stale()
    configuration.reload()
    assert not configuration.is_stale()
    files.say("nonsense = 1")
    assert configuration.is_stale()
    with pytest.raises(InvalidConfigs):
        configuration.reload()
    assert not configuration.is_stale()


def test_cluster_metadata_that_a_broker_wrote_makes_it_stale(files):
    configuration = Configuration(files.load)
    metadata = files.data / "__cluster_metadata-0"
    metadata.mkdir()
    (metadata / "00000000000000000000.log").write_bytes(b"")
    assert configuration.is_stale()


def test_a_metadata_log_on_another_disk_is_looked_at_too(files, tmp_path):
    files.say(f'metadata.log.dir = "{tmp_path / "meta"}"')
    write_metadata(tmp_path / "meta")
    configuration = Configuration(files.load)
    assert not configuration.is_stale()
    (tmp_path / "meta" / "__cluster_metadata-0" / "quorum-state").write_text("{}")
    assert configuration.is_stale()


def test_what_changes_while_it_is_read_makes_it_stale(files):
    def load():
        loaded = files.load()
        if meanwhile:
            files.say(meanwhile.pop())
        return loaded

    meanwhile: list[str] = []
    configuration = Configuration(load)
    files.properties.write_text("listeners=PLAINTEXT://:9092\nlog.retention.ms=3000\n")
    meanwhile.append("[defaults]\nretention.ms = 5")
    configuration.reload()
    assert configuration.is_stale()
