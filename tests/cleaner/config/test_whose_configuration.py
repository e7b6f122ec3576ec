"""The configuration of another broker holds a run back; a dry run and a copy only report it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cleaner.cli.main import main
from tests.cleaner.engine.test_one_moment import drawn, logs
from tests.metadata_dirs import METADATA_DIR, write_metadata
from tests.ordinary import run_as_ordinary_user
from tests.partition_dirs import PartitionDir, committed, keyed


class Place:
    """A log dir with its ``meta.properties``, and a ``server.properties`` for it or for another."""

    def __init__(self, tmp_path: Path) -> None:
        self.tmp_path = tmp_path
        self.log_dir = drawn(tmp_path / "data")
        self.properties = tmp_path / "server.properties"
        self.own("node.id=1", "cluster.id=abc")
        self.before = logs(self.log_dir)

    def own(self, *lines: str) -> None:
        (self.log_dir / "meta.properties").write_text("\n".join(("version=1", *lines, "")))

    def broker(self, *lines: str) -> None:
        self.properties.write_text("\n".join((*lines, "")))

    def run(self, *args: str) -> int:
        return main([*args, "--server-properties", str(self.properties), "--log-dir", str(self.log_dir)])

    @property
    def is_untouched(self) -> bool:
        return logs(self.log_dir) == self.before


@pytest.fixture
def place(tmp_path, monkeypatch) -> Place:
    monkeypatch.setattr("cleaner.engine.freeing.WAIT_SECONDS_MAX", 0.0)  # other tests take space of this disk, too
    return Place(tmp_path)


FOREIGN = {
    "another node": (("node.id=2", "log.dirs={dir}"), "is for node.id 2"),
    "another node, by its old name": (("broker.id=7", "log.dirs={dir}"), "is for node.id 7"),
    "another directory": (("node.id=1", "log.dirs=/nowhere,/elsewhere"), "does not name this log dir"),
    "another directory, in the singular": (("node.id=1", "log.dir=/nowhere"), "does not name this log dir"),
}


@pytest.mark.parametrize("story", FOREIGN)
@pytest.mark.parametrize("command", [("clean",), ("free", "--target", "100%")], ids=lambda command: command[0])
def test_changes_in_place_are_held_back_until_yes(place, story, command, capsys):
    lines, told = FOREIGN[story]
    place.broker(*(line.format(dir=place.log_dir) for line in lines))
    assert place.run(*command) == 5
    assert place.is_untouched
    err = capsys.readouterr().err
    assert "FOREIGN_CONFIG" in err
    assert told in err
    place.run(*command, "--yes")
    assert not place.is_untouched


@pytest.mark.parametrize("story", FOREIGN)
def test_a_dry_run_and_a_copy_only_say_it(place, story, tmp_path, capsys):
    lines, told = FOREIGN[story]
    place.broker(*(line.format(dir=place.log_dir) for line in lines))
    assert place.run("clean", "--dry-run", "--exit-code") == 10
    assert told in capsys.readouterr().err
    assert place.run("clean", "--output", str(tmp_path / "copy")) == 0
    assert told in capsys.readouterr().err
    assert (tmp_path / "copy" / "logcleaner-manifest.json").exists()
    assert place.is_untouched


@pytest.mark.parametrize("options", [("--dry-run",), ("--dry-run", "--yes"), ("--yes",)])
@pytest.mark.parametrize("command", [("clean",), ("free", "--target", "100%")])
def test_it_is_said_once_a_log_dir_whatever_the_command_and_whoever_confirmed_it(place, command, options, capsys):
    place.broker("node.id=2", f"log.dirs={place.log_dir}")
    place.run(*command, *options)
    told = [line for line in capsys.readouterr().err.splitlines() if "FOREIGN_CONFIG" in line]
    consequence = "--yes confirmed it" if "--yes" in options else "a run that changes the log dir needs --yes"
    assert [consequence in line for line in told] == [True]


def test_free_tells_a_guard_of_the_log_dir_once_and_not_for_each_partition(place, capsys):
    place.broker("node.id=2", f"log.dirs={place.log_dir}")
    assert place.run("free", "--target", "100%") == 5
    told = capsys.readouterr().err
    assert told.count("FOREIGN_CONFIG") == 1
    assert "a guard rail holds" in told
    assert "policy allows no more" not in told


def test_what_a_crash_left_is_not_recovered_under_anothers_configuration(place):
    place.broker("node.id=2")
    leftover = place.log_dir / "state-0" / f"{0:020d}.log.cleaned"
    leftover.write_bytes(b"")
    assert place.run("clean") == 5
    assert leftover.exists()
    assert not (place.log_dir / ".logcleaner-journal").exists()


OWN = {
    "the same node and directory": ("node.id=1", "log.dirs=/nowhere, {dir}"),
    "no id and no directory": ("listeners=PLAINTEXT://:9092", "log.retention.ms=5"),
    "an id that ZooKeeper is asked for": ("broker.id=-1", "log.dirs={dir}"),
    "by another path": ("node.id=1", "log.dirs={link}"),
}


@pytest.mark.parametrize("story", OWN)
def test_the_brokers_own_is_believed(place, story, tmp_path):
    (tmp_path / "link").symlink_to(place.log_dir)
    place.broker(*(line.format(dir=place.log_dir, link=tmp_path / "link") for line in OWN[story]))
    assert place.run("clean") == 0
    assert not place.is_untouched


def test_a_configuration_file_that_names_both_is_the_statement_for_the_path(place, tmp_path):
    place.broker("node.id=1", "log.dirs=/var/lib/kafka")
    config = tmp_path / "c.toml"
    config.write_text(f'log.dirs = ["{place.log_dir}"]\nserver.properties = "server.properties"\n')
    assert main(["clean", "--config", str(config)]) == 0
    assert not place.is_untouched


@pytest.mark.parametrize("extra", ["node", "--log-dir", "--server-properties"])
def test_it_is_no_statement_for_the_node_nor_for_what_the_command_line_names(place, tmp_path, extra):
    place.broker(f"node.id={2 if extra == 'node' else 1}", "log.dirs=/var/lib/kafka")
    other = drawn(tmp_path / "other")
    named = other if extra == "--log-dir" else place.log_dir
    config = tmp_path / "c.toml"
    config.write_text(f'log.dirs = ["{named}"]\nserver.properties = "server.properties"\n')
    options = {"node": [], "--log-dir": [place.log_dir], "--server-properties": [place.properties]}[extra]
    args = [extra, *map(str, options)] if options else []
    assert main(["clean", "--config", str(config), *args]) == 5
    assert place.is_untouched


def test_metadata_of_another_cluster_is_not_believed(place, tmp_path, capsys):
    """Two log dirs in one run, of two clusters: the topics of the first are not those of the second."""
    other = tmp_path / "other"
    PartitionDir(other, "orders-0").segment(0, keyed(0, "a=1", timestamp_ms=1)).segment(1, keyed(1, "a=1"))
    (other / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=xyz\n")
    before = logs(other)
    assert main(["clean", "--assume-committed", "--log-dir", str(place.log_dir), str(other)]) == 5
    assert "--assume-committed" in capsys.readouterr().err
    assert main(["clean", "--log-dir", str(place.log_dir), str(other)]) == 5
    assert "is of cluster abc, this log dir of cluster xyz" in capsys.readouterr().err
    assert logs(other) == before
    assert not place.is_untouched


def test_a_metadata_log_dir_that_is_not_there_is_an_error(place, capsys):
    place.broker("node.id=1", "metadata.log.dir=/nowhere")
    assert place.run("clean") == 6
    assert "/nowhere: metadata.log.dir names it, and it does not exist" in capsys.readouterr().err
    assert place.is_untouched


def test_a_metadata_log_dir_that_is_there_and_holds_no_metadata_is_wrong(place, tmp_path, capsys):
    (tmp_path / "meta").mkdir()
    (tmp_path / "meta" / "meta.properties").touch()
    place.broker("node.id=1", f"metadata.log.dir={tmp_path / 'meta'}")
    assert place.run("clean") == 2
    assert "holds no __cluster_metadata-0" in capsys.readouterr().err
    assert place.is_untouched


def test_a_metadata_log_dir_that_is_stated_is_read_and_no_other(place, tmp_path):
    keeps_all = {"cleanup.policy": "delete", "retention.ms": "-1"}
    write_metadata(tmp_path / "meta", orders=keeps_all, state=keeps_all)
    place.broker("node.id=1", f"metadata.log.dir={tmp_path / 'meta'}", f"log.dirs={place.log_dir}")
    assert (place.log_dir / METADATA_DIR).is_dir()
    assert place.run("clean") == 0
    assert place.is_untouched


@pytest.mark.parametrize("how", ["--set", "glob", "name"])
def test_a_topic_whose_own_configuration_says_delete_is_compacted_by_its_exact_name_alone(tmp_path, how, capsys):
    log_dir = tmp_path / "data"
    state = PartitionDir(log_dir, "state-0")
    for base in (0, 2, 4):
        state.segment(base, keyed(base, "a=1", f"b={base}"))
    write_metadata(committed(log_dir, state), state={"cleanup.policy": "delete", "retention.ms": "-1"})
    before = logs(log_dir)
    args = ["clean", "--force-compaction", "--log-dir", str(log_dir)]
    if how == "--set":
        args += ["--set", "cleanup.policy=compact"]
    else:
        (tmp_path / "c.toml").write_text(f'[topics."{"state" if how == "name" else "st*"}"]\ncleanup.policy="compact"')
        args += ["--config", str(tmp_path / "c.toml")]
    assert main(args) == (0 if how == "name" else 5)
    assert (logs(log_dir) == before) == (how != "name")
    if how != "name":
        err = capsys.readouterr().err
        assert "its own configuration says delete" in err
        assert '[topics."state"]' in err


def test_with_the_cleaner_off_compacted_topics_are_left_alone_as_in_kafka(tmp_path, capsys):
    log_dir = drawn(tmp_path / "data")
    properties = tmp_path / "server.properties"
    properties.write_text("listeners=PLAINTEXT://:9092\nlog.cleaner.enable=false\n")
    write_back = logs(log_dir)
    args = ["clean", "--server-properties", str(properties), "--log-dir", str(log_dir)]
    assert main([*args, "--json"]) == 0
    codes = {
        (p["topic"], s["reason"]["code"])
        for p in json.loads(capsys.readouterr().out)["partitions"]
        for s in p["segments"]
    }
    assert ("state", "CLEANER_DISABLED") in codes
    assert ("orders", "CLEANER_DISABLED") not in codes
    assert {n: b for n, b in logs(log_dir).items() if "state" in n} == {
        n: b for n, b in write_back.items() if "state" in n
    }
    assert main([*args, "--set", "log.cleaner.enable=true"]) == 0
    assert {n: b for n, b in logs(log_dir).items() if "state" in n} != {
        n: b for n, b in write_back.items() if "state" in n
    }


def test_the_age_of_the_newest_metadata_record_is_told(place, capsys):
    place.broker("node.id=1")
    assert place.run("clean", "--dry-run", "--now", "1970-01-02T00:00:00.001Z") in (0, 5)
    assert "newest record of the cluster metadata: 1970-01-01T00:00:00Z, 1d old" in capsys.readouterr().out


@pytest.mark.parametrize("command", [("clean",), ("free", "--target", "100%")], ids=lambda command: command[0])
def test_metadata_in_another_log_dir_of_the_configuration_counts_for_one_that_is_named(tmp_path, command):
    """A broker with several log dirs keeps the metadata of all its topics in one of them."""
    first, second = tmp_path / "1", tmp_path / "2"
    write_metadata(first, orders={"retention.ms": "-1"})
    PartitionDir(second, "orders-0").segment(0, keyed(0, "a=1", timestamp_ms=1)).segment(1, keyed(1, "a=1"))
    high_watermark = PartitionDir(second, "other-0").segment(0, keyed(0, "a=1"))
    committed(second, high_watermark)
    (second / "replication-offset-checkpoint").write_text("0\n1\norders 0 2\n")
    config = tmp_path / "c.toml"
    config.write_text(
        f'log.dirs = ["{first}", "{second}"]\n[defaults]\ncleanup.policy = "delete"\nretention.ms = "7d"\n'
    )
    before = logs(second)
    main([*command, "--config", str(config), "--log-dir", str(second)])
    assert logs(second) == before


def test_a_kraft_broker_whose_metadata_was_not_found_is_held_back(tmp_path, capsys):
    log_dir, properties = drawn(tmp_path / "data"), tmp_path / "server.properties"
    (log_dir / METADATA_DIR).rename(tmp_path / "away")
    properties.write_text(f"process.roles=broker\nlog.dirs={log_dir}\n")
    before = logs(log_dir)
    args = ["--server-properties", str(properties), "--set", "cleanup.policy=delete", "--set", "retention.ms=1"]
    assert main(["clean", "--log-dir", str(log_dir), *args]) == 5
    assert "no __cluster_metadata-0 was found" in capsys.readouterr().err
    assert logs(log_dir) == before


def _broker_config(log_dir: Path, node: str, key: str, value: str) -> None:
    from storage.metadata.metadata_encode import encode_config
    from storage.metadata.metadata_log import ConfigSet, ResourceType
    from tests.metadata_dirs import append_metadata

    append_metadata(log_dir, [encode_config(ConfigSet(ResourceType.BROKER, node, key, value))])


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_configs_of_single_brokers_are_not_taken_for_the_log_dirs_of_others(tmp_path, order, capsys):
    """Broker 2 keeps everything; the metadata is read for broker 1, which has no configs of its own."""
    dirs = [drawn(tmp_path / "1"), drawn(tmp_path / "2")]
    for number, path in enumerate(dirs, 1):
        (path / "meta.properties").write_text(f"version=1\nnode.id={number}\ncluster.id=abc\n")
        _broker_config(path, "", "log.retention.ms", "1000")
        _broker_config(path, "2", "log.retention.ms", "-1")
    before = [logs(path) for path in dirs]
    named = [str(dirs[place]) for place in order]
    assert main(["clean", "--log-dir", *named]) == 5
    assert "FOREIGN_CONFIG" in capsys.readouterr().err
    other = order[1]
    assert logs(dirs[other]) == before[other]


def test_without_a_node_id_configs_of_single_brokers_hold_back(tmp_path, capsys):
    log_dir = drawn(tmp_path / "data")
    _broker_config(log_dir, "2", "log.retention.ms", "-1")
    before = logs(log_dir)
    assert main(["clean", "--log-dir", str(log_dir)]) == 5
    assert "names no node.id" in capsys.readouterr().err
    assert logs(log_dir) == before


@pytest.mark.parametrize("how", ["--set", "glob", "name"])
def test_a_topic_whose_own_configuration_says_compact_is_deleted_from_by_its_exact_name_alone(tmp_path, how, capsys):
    log_dir = drawn(tmp_path / "data")
    before = logs(log_dir)
    args = ["clean", "--topic", "state", "--log-dir", str(log_dir)]
    table = f'[topics."{"state" if how == "name" else "st*"}"]\ncleanup.policy="delete"\nretention.ms=1\n'
    (tmp_path / "c.toml").write_text(table)
    says = ["--set", "cleanup.policy=delete", "--set", "retention.ms=1"]
    assert main([*args, *(says if how == "--set" else ["--config", str(tmp_path / "c.toml")])]) == (
        0 if how == "name" else 5
    )
    assert (logs(log_dir) == before) == (how != "name")


def test_a_torn_tail_of_the_metadata_is_told(place, capsys):
    place.broker("node.id=1")
    with (place.log_dir / METADATA_DIR / f"{0:020d}.log").open("ab") as file:
        file.write(b"\0" * 7)
    place.run("clean", "--dry-run")
    assert "ends in 7 bytes that are no batch" in capsys.readouterr().out.replace("\n    ", " ")


def test_another_configured_log_dir_that_cannot_be_looked_into_changes_nothing(tmp_path):
    """The metadata may lie there."""
    first, second = tmp_path / "1", drawn(tmp_path / "2")
    (second / METADATA_DIR).rename(tmp_path / "away")
    write_metadata(first, orders={"retention.ms": "-1"})
    config = tmp_path / "c.toml"
    limits = '[defaults]\ncleanup.policy = "delete"\nretention.ms = "7d"\n'
    config.write_text(f'log.dirs = ["{first}", "{second}"]\n{limits}')
    before = logs(second)
    first.chmod(0)
    done = run_as_ordinary_user("clean", "--config", config, "--log-dir", second)
    first.chmod(0o755)
    assert done.returncode == 1
    assert f"{first}: cannot be read: this user may not look for the cluster metadata" in done.stderr
    assert logs(second) == before
