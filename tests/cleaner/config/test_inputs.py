"""The inputs of a command: a pipe is read once, and several files are one configuration."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from cleaner.cli.main import main
from cleaner.config.files import CommandFiles
from cleaner.config.layers import Settings
from cleaner.config.reader import ConfigurationChanges, ConfigurationReader
from cleaner.config.settings import read_settings
from cleaner.daemon.configuration import Configuration
from storage.directory import is_read_once
from storage.errors import InvalidConfig, UnreadableFile
from tests.metadata_dirs import write_metadata
from tests.partition_dirs import PartitionDir

SERVER = "node.id=1\nlog.retention.hours=720\n"


# Read once


def test_a_pipe_says_at_each_reading_what_it_said_first(pipe: Callable[[str], Path]) -> None:
    inputs, path = CommandFiles(), pipe("a")
    assert [inputs.read(path, "--config") for _ in range(3)] == [b"a"] * 3
    assert CommandFiles().read(path, "--config") == b"", "as any other reader would find it"
    assert is_read_once(path)
    assert not inputs.has_changed(path)


def test_a_fifo_in_whose_place_another_file_is_by_now_says_what_it_said_first(tmp_path: Path) -> None:
    path, inputs = tmp_path / "c.toml", CommandFiles()
    os.mkfifo(path)
    threading.Thread(target=path.write_text, args=("first",), daemon=True).start()  # waits for the one who reads
    assert inputs.read(path, "--config") == b"first"
    path.unlink()
    path.write_text("second")
    assert inputs.read(path, "--config") == b"first"


def test_a_file_is_read_anew(tmp_path: Path) -> None:
    path, inputs = tmp_path / "c.toml", CommandFiles()
    path.write_text("first")
    assert inputs.read(path, "--config") == b"first"
    assert not inputs.has_changed(path)
    path.write_text("second one")
    assert inputs.has_changed(path)
    assert inputs.read(path, "--config") == b"second one"
    path.unlink()
    assert inputs.has_changed(path)
    with pytest.raises(UnreadableFile):
        inputs.read(path, "--config")


def test_two_options_cannot_share_what_can_be_read_only_once(pipe: Callable[[str], Path]) -> None:
    inputs, path = CommandFiles(), pipe("a")
    inputs.read(path, "--keys")
    for same in (path, Path("/proc/self/fd") / path.name):
        with pytest.raises(InvalidConfig, match=r"--config .* can be read only once, and --keys has read it"):
            inputs.read(same, "--config")


def test_options_that_name_the_same_pipe_are_refused(
    pipe: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    PartitionDir(tmp_path)
    path = str(pipe("kafka.defaults = true"))
    assert main(["clean", "-n", "--log-dir", str(tmp_path), "--config", path, "--server-properties", path]) == 2
    assert "and --config has read it; put one of the two into a file" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [["clean"], ["clean", "-n", "--html", "page.html"], ["preflight"], ["config", "check"]]
)
def test_every_reading_of_a_command_finds_what_came_by_pipes(
    words: list[str],
    pipe: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    data = write_metadata(PartitionDir(tmp_path / "data").path.parent, orders={})
    (data / "meta.properties").write_text("node.id=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAA\nversion=1\n")
    config, server = pipe('[topics.orders]\nretention.ms = "30d"\n'), pipe(SERVER)
    options = ["--log-dir", str(data), "--config", str(config), "--server-properties", str(server)]
    assert main([*words, *options]) == 0, capsys.readouterr().err


def test_the_daemon_holds_on_to_what_came_by_a_pipe(pipe: Callable[[str], Path], tmp_path: Path) -> None:
    path, inputs = pipe(f'log.dirs = ["{PartitionDir(tmp_path / "data").path.parent}"]'), CommandFiles()
    reader = ConfigurationReader(lambda: read_settings(path, inputs), inputs=inputs, keeps_settings=True)
    configuration = Configuration(reader.read)
    assert configuration.reload() == []
    assert configuration.files == ()
    assert not configuration.is_stale()
    assert configuration.loaded.contents[path].startswith(b"log.dirs")


# Files that belong together


class ConfigMap:
    """Two files behind ``..data``, as Kubernetes mounts them; a swap replaces both in one step.

    The old pair keeps 30 days, by the broker's file. The new pair keeps 30 days as well, by the other one.
    """

    OLD = "", "log.retention.hours=720"
    NEW = '[defaults]\nretention.ms = "30d"', "log.retention.hours=1"

    def __init__(self, place: Path) -> None:
        self.place, self.swaps = place, 0
        PartitionDir(place / "data")
        for name in ("c.toml", "server.properties"):
            (place / name).symlink_to(f"..data/{name}")
        self.swap(*self.OLD)

    def swap(self, toml: str, properties: str) -> None:
        self.swaps += 1
        version = self.place / f"..{self.swaps}"
        version.mkdir()
        top = f'log.dirs = ["{self.place / "data"}"]\nserver.properties = "server.properties"\n'
        (version / "c.toml").write_text(top + toml)
        (version / "server.properties").write_text(f"node.id=1\n{properties}\n")
        (self.place / "..new").symlink_to(version.name)
        (self.place / "..new").replace(self.place / "..data")

    def reader(self, between: Callable[[], None]) -> ConfigurationReader:
        """A reader; ``between`` is called after its reading of the first file."""
        inputs = CommandFiles()

        def settings() -> Settings:
            found = read_settings(self.place / "c.toml", inputs)
            between()
            return found

        return ConfigurationReader(settings, inputs=inputs)


def test_a_swap_between_two_files_of_a_config_map_is_seen(tmp_path: Path) -> None:
    """The old file beside the new one would keep an hour, which neither pair says."""
    config_map, swaps = ConfigMap(tmp_path), [ConfigMap.NEW]
    reader = config_map.reader(lambda: config_map.swap(*swaps.pop()) if swaps else None)
    policy = reader.read().layers.policy_for("orders")
    assert policy.shown("retention.ms") == "30d"
    assert policy.origin("retention.ms").startswith(str(tmp_path / "c.toml"))


def test_files_that_change_with_every_reading_are_given_up(tmp_path: Path) -> None:
    config_map = ConfigMap(tmp_path)
    reader = config_map.reader(lambda: config_map.swap(*ConfigMap.NEW))
    with pytest.raises(ConfigurationChanges, match="run again once it is written"):
        reader.read()
