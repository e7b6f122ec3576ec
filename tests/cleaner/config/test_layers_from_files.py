import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cleaner.config.layers import Settings, build_layers, with_cluster_metadata
from cleaner.config.reader import load_layers
from policies.config import config_layers
from policies.config.config_sources import RawLayer, Said, StatedLayer
from policies.config.policy import Layer
from storage.errors import InvalidConfig, InvalidConfigs, UnreadableFile
from storage.metadata.metadata_log import ClusterMetadata
from storage.properties import parse_properties

CLUSTER = ClusterMetadata(
    directory=Path("/data/__cluster_metadata-0"),
    end_offset=9,
    topic_ids={"orders": "AAAAAAAAAAAAAAAAAAAABw"},
    topic_configs={"orders": {"cleanup.policy": "compact"}},
    cluster_default={"log.segment.bytes": "20"},
    broker_configs={"1": {"log.segment.bytes": "21"}, "2": {"log.segment.bytes": "22"}},
    torn_tail_bytes=0,
)


def test_each_source_becomes_its_layer_with_its_origin() -> None:
    layers = build_layers(
        Settings(
            server_properties=Path("/etc/server.properties"),
            defaults={"segment.ms": Said("5s", "c.toml line 2")},
        ),
        server_properties=parse_properties(b"#\nlog.retention.hours=2\n", "server.properties"),
        set_options=["delete.retention.ms = 7"],
    )
    policy = with_cluster_metadata(layers, CLUSTER, "1").policy_for("orders")
    assert policy.cleanup_compact
    assert {key: policy.origin(key) for key in ("retention.ms", "segment.bytes", "cleanup.policy", "segment.ms")} == {
        "retention.ms": "/etc/server.properties line 2",
        "segment.bytes": "cluster metadata, broker 1",
        "cleanup.policy": "cluster metadata, topic orders",
        "segment.ms": "c.toml line 2",
    }
    places = {key: (policy.stated[key].file, policy.stated[key].line) for key in ("retention.ms", "segment.bytes")}
    assert places == {
        "retention.ms": ("/etc/server.properties", 2),
        "segment.bytes": ("/data/__cluster_metadata-0", None),
    }
    assert (policy.stated["delete.retention.ms"].file, policy.stated["retention.bytes"].file) == (None, None)
    assert (policy.segment_bytes, policy.delete_retention_ms) == (21, 7)
    assert policy.origin("delete.retention.ms") == "--set"


@pytest.mark.parametrize("node_id", [None, "3"])
def test_another_brokers_dynamic_configs_are_not_taken(node_id: str | None) -> None:
    assert with_cluster_metadata(build_layers(Settings()), CLUSTER, node_id).policy_for("orders").segment_bytes == 20


def test_without_cluster_metadata_no_topic_is_known() -> None:
    assert build_layers(Settings()).policy_for("orders").unknown


def test_mistakes_of_set_are_told_together_with_the_others() -> None:
    with pytest.raises(InvalidConfigs) as raised:
        build_layers(Settings(defaults={"segment.ms": Said(0, "c.toml line 2")}), set_options=["a", "=b", "c=d"])
    assert [problem.where for problem in raised.value.problems] == [
        "--set",
        "--set",
        "c.toml line 2",
        "--set",
    ]


def test_the_last_set_of_a_key_holds() -> None:
    layers = build_layers(Settings(), set_options=["segment.ms=5", "segment.ms=6"])
    assert layers.policy_for("orders").segment_ms == 6


def test_log_dirs_of_the_command_line_win_over_those_of_the_broker(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text(f"log.dirs={tmp_path}/a,{tmp_path}/b\n")
    settings = Settings(server_properties=path)
    assert load_layers(settings).log_dirs == (tmp_path / "a", tmp_path / "b")
    assert load_layers(settings, [tmp_path / "c"]).log_dirs == (tmp_path / "c",)


def test_server_properties_that_cannot_be_read_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile):
        load_layers(Settings(server_properties=tmp_path / "none"))


def write_metadata(log_dir: Path) -> None:
    from storage.records.v2 import Record, encode_batch

    topic = b"\x01\x02\x00" + b"\x07orders" + bytes(16) + b"\x00"
    broker = b"\x01\x04\x00" + b"\x04" + b"\x025" + b"\x12log.segment.bytes" + b"\x0321" + b"\x00"
    directory = log_dir / "__cluster_metadata-0"
    directory.mkdir(parents=True)
    records = [Record(0, 1, None, topic), Record(1, 1, None, broker)]
    (directory / "00000000000000000000.log").write_bytes(encode_batch(records))


@pytest.mark.parametrize("id_key", ["node.id", "broker.id"])
def test_cluster_metadata_is_found_in_a_log_dir_with_the_brokers_own_configs(tmp_path: Path, id_key: str) -> None:
    write_metadata(tmp_path / "b")
    (tmp_path / "b" / "meta.properties").write_text(f"#\nversion=1\n{id_key}=5\n")
    found = load_layers(Settings(), [tmp_path / "a", tmp_path / "b"])
    assert found.cluster is not None
    policy = found.layers.policy_for("orders")
    assert (policy.unknown, policy.segment_bytes) == (False, 21)


def test_cluster_metadata_is_found_in_its_own_dir(tmp_path: Path) -> None:
    write_metadata(tmp_path / "meta")
    settings = Settings(defaults={"metadata.log.dir": Said(str(tmp_path / "meta"), "here")})
    assert not load_layers(settings, [tmp_path]).layers.policy_for("orders").unknown


def test_cluster_metadata_is_left_alone_where_it_is_not_wanted(tmp_path: Path) -> None:
    write_metadata(tmp_path)
    found = load_layers(replace(Settings(), cluster_metadata=False), [tmp_path])
    assert found.cluster is None
    assert found.layers.policy_for("orders").unknown


def test_layers_need_neither_pydantic_nor_numba() -> None:
    code = (
        "import sys; from cleaner.config.layers import Settings; from cleaner.config.reader import load_layers;"
        "load_layers(Settings());"
        "sys.exit(bool({'pydantic', 'numba', 'tomllib'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_source_is_turned_into_its_layer_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log dirs come first, since the cluster metadata lies in one of them: that is no reason to read twice."""
    read: list[Layer] = []
    read_layer = config_layers.read_layer

    def counted(layer: Layer, raw: RawLayer, problems: list[InvalidConfig]) -> StatedLayer:
        read.extend([layer] if raw else [])
        return read_layer(layer, raw, problems)

    monkeypatch.setattr(config_layers, "read_layer", counted)
    path = tmp_path / "server.properties"
    path.write_text(f"log.dirs={tmp_path}\nnode.id=5\n")
    (tmp_path / "meta.properties").write_text("#\nversion=1\nnode.id=5\n")
    write_metadata(tmp_path)
    settings = Settings(
        server_properties=path,
        defaults={"segment.bytes": Said(50, "here")},
        topics={"o*": {"segment.ms": Said(50, "here")}},
    )
    loaded = load_layers(settings, set_options=["delete.retention.ms=5"])
    assert not loaded.layers.policy_for("orders").unknown
    unsaid = {Layer.KAFKA_DEFAULT, Layer.CLUSTER_DEFAULT, Layer.TOPIC_METADATA, Layer.TOPICS_NAME}
    assert sorted(read) == [layer for layer in Layer if layer not in unsaid]


def test_a_key_that_is_gone_is_told_and_ignored(tmp_path: Path) -> None:
    topics = {
        "orders": {"cleanup.policy": Said("compact", "c.toml"), "compaction.rounds": Said("kafka", "c.toml line 3")}
    }
    loaded = load_layers(Settings(topics=topics), (tmp_path,), ("compaction.rounds=full",))
    because = "compaction.rounds is no key any more, and is ignored: a round always takes all keys of its dirty section"
    assert loaded.ignored == (f"c.toml line 3: {because}", f"--set: {because}")
    assert loaded.layers.policy_for("orders").cleanup_compact
