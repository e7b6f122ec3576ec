"""Each path to which everybody may write is reported once."""

import json

import pytest

from cleaner.cli.main import main
from cleaner.cli.opening import tell_world_writable
from cleaner.events import EventLog, LogFormat
from tests.partition_dirs import PartitionDir, committed, keyed


def told(capsys):
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    return [(line["level"], line["event"], line["path"], line["mode"]) for line in lines]


@pytest.mark.parametrize(("mode", "is_told"), [(0o777, True), (0o1777, True), (0o702, True), (0o775, False)])
def test_directory_is_told_where_everybody_may_write(tmp_path, capsys, mode, is_told):
    tmp_path.chmod(mode)
    tell_world_writable([tmp_path], EventLog(log_format=LogFormat.JSON))
    expected = ("warning", "world_writable", str(tmp_path), f"{mode:04o}")
    assert told(capsys) == ([expected] if is_told else [])


def test_file_that_is_not_there_is_for_others_to_tell(tmp_path, capsys):
    tell_world_writable([tmp_path / "absent"], EventLog(log_format=LogFormat.JSON))
    assert told(capsys) == []


def test_clean_tells_log_dir_configuration_and_server_properties(tmp_path, capsys):
    log_dir = committed(tmp_path, PartitionDir(tmp_path).segment(0, keyed(0, "a=1")))
    config, properties = tmp_path / "logcleaner.toml", tmp_path / "server.properties"
    properties.write_text("listeners=x\nsasl.jaas.config=hunter2\nretention.ms=hunter2\n")
    config.write_text('server.properties = "server.properties"\n')
    for path in (log_dir, config, properties):
        path.chmod(path.stat().st_mode | 0o002)
    main(["clean", "-n", "--log-format", "json", "--log-dir", str(log_dir), "--config", str(config)])
    found = capsys.readouterr()
    assert "hunter2" not in found.out + found.err
    events = [json.loads(line) for line in found.err.splitlines() if line.startswith("{")]
    assert [e["path"] for e in events if e["event"] == "world_writable"] == [*map(str, (log_dir, config, properties))]
