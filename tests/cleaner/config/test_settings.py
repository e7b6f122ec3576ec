from pathlib import Path

import pytest

from cleaner.config.layers import Settings, build_layers
from cleaner.config.settings import parse_settings, read_settings
from policies.config.config_sources import Said
from policies.config.config_values import RawValue
from storage.errors import InvalidConfigs, UnreadableFile

PATH = Path("/etc/logcleaner.toml")


def parse(text: str) -> Settings:
    return parse_settings(text, PATH)


def said(value: RawValue, *, line: int) -> Said:
    return Said(value, f"{PATH} line {line}", str(PATH), line)


def problems(text: str) -> list[str]:
    with pytest.raises(InvalidConfigs) as raised:
        parse(text)
    return str(raised.value).splitlines()


def test_an_empty_file_states_nothing() -> None:
    assert parse("") == Settings(path=PATH)


def test_every_table_is_read() -> None:
    found = parse("""\
log.dirs = ["/var/lib/kafka/data"]
server.properties = "/etc/kafka/server.properties"
cluster.metadata = false
kafka.defaults = true
[defaults]
file.delete.delay.ms = 60000
[topics."orders"]
cleanup.policy = "compact,delete"
"retention.ms" = "7d"
[topics."empty*"]
[cleaner]
threads = 2
log.cleaner.backoff.ms = "1s"
log.retention.check.interval.ms = "1m"
[metrics]
listen = "127.0.0.1:9308"
""")
    assert found.server_properties == Path("/etc/kafka/server.properties")
    assert (found.cluster_metadata, found.kafka_defaults) == (False, True)
    assert found.defaults == {
        "log.dirs": said(["/var/lib/kafka/data"], line=1),
        "file.delete.delay.ms": said(60_000, line=6),
        "log.cleaner.threads": said(2, line=12),
        "log.cleaner.backoff.ms": said("1s", line=13),
        "log.retention.check.interval.ms": said("1m", line=14),
    }
    assert found.topics == {
        "orders": {
            "cleanup.policy": said("compact,delete", line=8),
            "retention.ms": said("7d", line=9),
        },
        "empty*": {},
    }
    assert found.metrics_listen == "127.0.0.1:9308"


def test_what_is_read_becomes_layers() -> None:
    layers = build_layers(parse('log.dirs = "/a"\n[topics.orders]\ncleanup.policy = ["compact"]\n[cleaner]\nthreads=3'))
    assert layers.policy_for("orders").cleanup_compact
    assert (layers.broker_policy().log_dirs, layers.broker_policy().log_cleaner_threads) == (("/a",), 3)


def test_a_relative_path_is_taken_from_the_files_directory() -> None:
    assert parse('server.properties = "kafka.properties"').server_properties == Path("/etc/kafka.properties")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("cluster.metdata = true", "line 1: cluster.metdata: no such key; did you mean cluster.metadata?"),
        ("log.dris = []", "line 1: log.dris: no such key; did you mean log.dirs?"),
        ("\n[default]\na = 1", "line 3: default.a: no such key; did you mean the table [defaults]?"),
        ("[metrics]\nlistn = ''", "line 2: metrics.listn: no such key; did you mean listen?"),
        ("[metrics]\nlisten = '9308'", "line 2: metrics.listen: must be HOST:PORT"),
        ("[cleaner]\nthreds = 1", "line 2: cleaner.threds: no such key; did you mean threads?"),
        ("[cleaner]\nretention.ms = 1", "line 2: cleaner.retention.ms: no such key"),
        ("[defaults]\nretention.mss = 1", "line 2: retention.mss: no such key; did you mean retention.ms?"),
        ("[topics.a]\nlog.dirs = 1", "line 2: log.dirs: no such key"),
        ("cluster.metadata = 1", "line 1: cluster.metadata: must be true or false"),
        ("kafka.defaults = 'true'", "line 1: kafka.defaults: must be true or false"),
        ("server.properties = 1", "line 1: server.properties: must be a string"),
        ("defaults = 1", "line 1: defaults: must be a table"),
        ("metrics = 1", "line 1: metrics: must be a table"),
        ("[[topics]]\na = 1", "line 1: topics: must be a table"),
        ("[topics]\norders = 1", "line 2: topics.orders: must be a table"),
        ("[defaults]\nretention.ms = 1979-05-27", "must be a whole number of 64 bits"),
        ("[defaults]\ncleanup.policy = [{a = 1}]", "must be a list of texts"),
        (
            "[defaults]\nretention.ms = 1\n'retention.ms' = 2",
            "line 3: defaults.retention.ms: is already stated in line 2",
        ),
        ("log.cleaner.threads = 1\n[cleaner]\nthreads = 2", "line 3: cleaner.threads: is already stated at"),
        ("a = [", "is not valid TOML"),
        ('"" = 1\ndefaults."" = 2\ntopics."" = 3', "line 1: : no such key"),
    ],
)
def test_a_mistake_is_told_with_its_line(text: str, problem: str) -> None:
    assert any(problem in found for found in problems(text)), problems(text)


def test_all_mistakes_are_told_at_once_and_in_order() -> None:
    text = (
        "[topics.a]\nretention.ms = 'x'\n[metrics]\nlisten = 1\n"
        "[defaults]\nsegment.ms = 0\n[cleaner]\nnope = 1\n[x]\ny = 1\n"
    )
    lines = [problem.partition(" line ")[2].partition(":")[0] for problem in problems(text)]
    assert lines == ["2", "4", "6", "8", "10"]


def test_a_file_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile):
        read_settings(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes(b"a = '\xe4'")
    with pytest.raises(UnreadableFile):
        read_settings(tmp_path / "latin.toml")


def test_a_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("kafka.defaults = true")
    assert read_settings(tmp_path / "c.toml").kafka_defaults


def test_metrics_of_a_run_go_where_the_file_says() -> None:
    found = parse('[metrics]\ntextfile = "metrics/logcleaner.prom"\nper.partition = "all"\n')
    assert (found.metrics_textfile, found.metrics_per_partition) == (PATH.parent / "metrics/logcleaner.prom", "all")
    assert found.metrics_listen is None


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('per.partition = "most"', "must be few, all or none"),
        ("per.partitions = 1", "per.partition"),
        ('textfile = ""', ""),
    ],
)
def test_metrics_settings_that_are_wrong(line: str, told: str) -> None:
    (problem,) = problems(f"[metrics]\n{line}\n")
    assert told in problem


def test_a_key_names_its_file_by_an_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    said = parse_settings("[defaults]\nretention.ms = 5", Path("c.toml")).defaults["retention.ms"]
    assert (said.origin, said.file) == ("c.toml line 2", str(tmp_path / "c.toml"))
