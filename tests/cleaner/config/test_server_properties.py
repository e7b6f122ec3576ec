"""Only the file that a broker is started with says that the broker runs on Kafka's defaults."""

from __future__ import annotations

from pathlib import Path

import pytest

from cleaner.cli.main import main
from cleaner.config.files import misspelt, read_server_properties
from storage.errors import InvalidConfig
from tests.cleaner.engine.test_one_moment import drawn

NOT_A_BROKERS = {
    "has no key that tells a broker's file, such as node.id or log.dirs": "# nothing\nlog.retention.ms=1\n",
    "is the meta.properties of a log dir": "version=1\nnode.id=1\ncluster.id=abc\ndirectory.id=def\n",
    "is a TOML file, which --config takes": 'log.dirs = ["/x"]\n',
}


@pytest.mark.parametrize(("reason", "text"), NOT_A_BROKERS.items())
@pytest.mark.parametrize("by", ["option", "config"])
def test_a_file_that_is_no_brokers_switches_no_default_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], reason: str, text: str, by: str
) -> None:
    log_dir, named = drawn(tmp_path / "data"), tmp_path / "some.file"
    named.write_text(text)
    if by == "option":
        options = ["--server-properties", str(named)]
    else:
        config = tmp_path / "config.toml"
        config.write_text('server.properties = "some.file"\n')
        options = ["--config", str(config)]
    for command in ("clean", "topics"):
        assert main([command, "--log-dir", str(log_dir), *options]) == 2
        told = capsys.readouterr().err
        assert str(named) in told
        assert f"{reason}; name the server.properties that the broker is started with" in told


@pytest.mark.parametrize("text", ["", "[defaults]\nretention.ms = 1\n", "listeners = 'x'\n"])
def test_an_empty_file_and_toml_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "file"
    path.write_text(text)
    with pytest.raises(InvalidConfig, match="that the broker is started with"):
        read_server_properties(path)


@pytest.mark.parametrize(
    "key",
    ["node.id", "broker.id", "process.roles", "log.dirs", "log.dir", "zookeeper.connect", "listeners",
     "controller.quorum.voters", "controller.quorum.bootstrap.servers"],
)  # fmt: skip
def test_one_setting_of_a_broker_is_enough(tmp_path: Path, key: str) -> None:
    path = tmp_path / "server.properties"
    path.write_text(f"{key}=1\n")
    assert read_server_properties(path)[key].value == "1"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("log.retention.mss", "log.retention.ms"),
        ("log.retention.byte", "log.retention.bytes"),
        ("Log.Retention.Hours", "log.retention.hours"),
        ("retention.ms", "log.retention.ms"),
        ("retention.hours", "log.retention.hours"),
        ("max.message.bytes", "message.max.bytes"),
    ],
)
@pytest.mark.parametrize("command", ["config check", "config show", "topics", "clean --dry-run"])
def test_a_key_that_is_nearly_one_of_a_brokers_is_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, written: str, meant: str
) -> None:
    log_dir, path = drawn(tmp_path / "data"), tmp_path / "server.properties"
    path.write_text(f"log.dirs={log_dir}\n{written}=3600000\n")
    arguments = [*command.split(), "--server-properties", str(path)]
    assert main(arguments) == 0
    told = capsys.readouterr().err
    assert f"{path} line 2: a broker has no key {written}, and ignores it; did you mean {meant}?" in told


@pytest.mark.parametrize(
    "written",
    ["offsets.retention.check.interval.ms", "log.retention.ms", "num.partitions", "min.insync.replicas", "a.plug.in",
     "log.message.format.version", "remote.log.manager.task.interval.ms", "controller.quorum.voters", "broker.rack"],
)  # fmt: skip
def test_other_keys_of_kafka_and_of_its_plugins_are_no_mistakes(tmp_path: Path, written: str) -> None:
    path = tmp_path / "server.properties"
    path.write_text(f"node.id=1\n{written}=1\n")
    assert misspelt(path, read_server_properties(path)) == ()
