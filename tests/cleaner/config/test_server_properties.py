"""Only the file that a broker is started with says that the broker runs on Kafka's defaults."""

from __future__ import annotations

from pathlib import Path

import pytest

from cleaner.cli.main import main
from cleaner.config.server_properties import read_server_properties
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
