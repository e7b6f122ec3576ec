"""``config show``, ``explain`` and ``check``: what is in force and who states it, and whether the files are sound."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from cleaner.cli.main import main
from policies.config.config_keys import BROKER_KEYS, TOPIC_KEYS
from storage.metadata.metadata_encode import encode_config
from storage.metadata.metadata_log import ConfigSet, ResourceType
from tests.metadata_dirs import METADATA_DIR, alter, append_metadata, write_metadata
from tests.ordinary import run_as_ordinary_user

CONFIG = """
log.dirs = ["{log_dir}"]
server.properties = "server.properties"
[defaults]
file.delete.delay.ms = "30s"
[topics."or*"]
retention.ms = "3d"
max.delete.ratio = 0.5
[cleaner]
threads = 2
"""
PROPERTIES = """node.id=1
log.dirs={log_dir}
log.retention.hours=24
log.retention.minutes=100
log.roll.hours=12
"""


class Place:
    """A log dir with topics, a configuration file and a ``server.properties``."""

    def __init__(self, root: Path) -> None:
        self.log_dir, self.config, self.properties = root / "data", root / "logcleaner.toml", root / "server.properties"
        topics = {
            "orders": {"cleanup.policy": "compact"},
            "audit": {"retention.ms": "5"},
            "plain": {},
            "elsewhere": {},
        }
        write_metadata(self.log_dir, **topics)
        (self.log_dir / "meta.properties").write_text("version=1\nnode.id=1\n")
        for name in ("orders-0", "orders-1", "audit-0", "plain-0", "__consumer_offsets-0"):
            (self.log_dir / name).mkdir()
            (self.log_dir / name / f"{0:020}.log").touch()
        self.config.write_text(CONFIG.format(log_dir=self.log_dir))
        self.properties.write_text(PROPERTIES.format(log_dir=self.log_dir))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def config(place: Place, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs an action on the file; gives status, stdout and stderr."""

    def run(*arguments: str) -> tuple[int, str, str]:
        status = main(["config", *arguments, "--config", str(place.config)])
        told = capsys.readouterr()
        return status, told.out, told.err

    return run


def keys(out: str, topic: str | None = None) -> dict[str, Any]:
    document = json.loads(out)
    assert document["schema"] == "logcleaner.config/1"
    found = next(one["keys"] for one in document["topics"] if one["topic"] == topic) if topic else document["keys"]
    return {one["key"]: one for one in found}


class TestShow:
    def test_what_somebody_stated_stands_with_its_place_and_nothing_else(self, config, place: Place) -> None:
        status, out, err = config("show", "--json")
        assert (status, err) == (0, "")
        found = keys(out)
        assert {key: (one["value"], one["name"], one["file"], one["line"]) for key, one in found.items()} == {
            "retention.ms": (6_000_000, "log.retention.minutes", str(place.properties), 4),
            "retention.bytes": (-1, "retention.bytes", None, None),
            "segment.ms": (43_200_000, "log.roll.hours", str(place.properties), 5),
            "file.delete.delay.ms": (30_000, "file.delete.delay.ms", str(place.config), 5),
            "log.dirs": (str(place.log_dir), "log.dirs", str(place.config), 2),
            "log.cleaner.threads": (2, "log.cleaner.threads", str(place.config), 10),
        }
        stated = [(one["name"], one["counts"]) for one in found["retention.ms"]["stated"]]
        assert stated == [("log.retention.minutes", True), ("log.retention.hours", False)]

    def test_all_shows_every_key(self, config) -> None:
        _, out, _ = config("show", "--all", "--json")
        assert list(keys(out)) == [key.name for key in (*TOPIC_KEYS, *BROKER_KEYS)]
        _, out, _ = config("show", "--all", "--json", "--topic", "plain")
        assert list(keys(out, "plain")) == [key.name for key in TOPIC_KEYS]

    def test_topics_have_their_own_values(self, config) -> None:
        status, out, _ = config("show", "--json", "--topic", "orders", "aud*")
        assert status == 0
        assert [one["topic"] for one in json.loads(out)["topics"]] == ["audit", "orders"]
        orders = keys(out, "orders")
        assert (orders["retention.ms"]["value"], orders["retention.ms"]["pattern"]) == (259_200_000, "or*")
        assert orders["cleanup.policy"]["origin"] == "cluster metadata, topic orders"
        assert keys(out, "audit")["retention.ms"]["value"] == 5

    def test_keys_of_a_newer_kafka_are_shown_as_unknown_and_hide_nothing(self, config, place: Place) -> None:
        append_metadata(place.log_dir, [bytes([1, 120, 0, 7, 0])])
        alter(place.log_dir, audit={"a.key.of.kafka.9": "on"})
        _, out, _ = config("show", "--json", "--topic", "audit")
        assert keys(out, "audit")["retention.ms"]["value"] == 5
        (audit,) = json.loads(out)["topics"]
        origin = "cluster metadata, topic audit"
        assert audit["unknown_keys"] == [{"key": "a.key.of.kafka.9", "value": "on", "origin": origin}]
        assert f"Unknown to logcleaner: a.key.of.kafka.9=on ({origin})." in config("show", "--topic", "audit")[1]

    def test_values_of_brokers_by_unknown_keys_may_be_secrets_and_are_not_shown(self, config, place: Place) -> None:
        secret = ConfigSet(ResourceType.BROKER, "", "ssl.keystore.password", "s3cret")
        append_metadata(place.log_dir, [encode_config(secret)])
        _, out, _ = config("show")
        assert "Unknown to logcleaner: ssl.keystore.password (cluster metadata, all brokers)." in out
        assert "s3cret" not in out

    @pytest.mark.parametrize(("glob", "topics"), [("orders-1", ["orders"]), ("elsewhere", ["elsewhere"])])
    def test_a_partition_names_its_topic_and_the_metadata_know_topics_too(self, config, glob, topics) -> None:
        _, out, _ = config("show", "--json", "--topic", glob)
        assert [one["topic"] for one in json.loads(out)["topics"]] == topics

    def test_a_topic_that_nothing_knows_is_wrong_usage_with_the_nearest_name(self, config) -> None:
        status, out, err = config("show", "--topic", "ordres")
        assert (status, out) == (2, "")
        assert "did you mean orders?" in err

    def test_an_internal_topic_has_no_limit_that_nobody_stated_for_it(self, config) -> None:
        _, out, _ = config("show", "--json", "--topic", "__consumer_offsets")
        assert keys(out, "__consumer_offsets")["retention.ms"]["value"] == -1

    def test_an_unknown_policy_is_told_with_the_reason(self, config, place: Place) -> None:
        shutil.rmtree(place.log_dir / METADATA_DIR)
        _, out, _ = config("show", "--topic", "plain")
        assert "cleanup.policy is unknown, so everything stays:" in out
        _, out, _ = config("show", "--json", "--topic", "plain")
        assert "nor the configuration speaks of this topic" in json.loads(out)["topics"][0]["unknown_because"]

    def test_a_policy_that_only_a_glob_states_for_a_compacted_topic_is_unknown(self, config, place: Place) -> None:
        (place.log_dir / "cleaner-offset-checkpoint").write_text("0\n1\nplain 0 7\n")
        _, out, _ = config("show", "--topic", "plain")
        assert "the topic was compacted before" in " ".join(out.split())

    def test_limits_are_shown_where_kafkas_defaults_delete(self, config, place: Place) -> None:
        place.properties.write_text(f"node.id=1\nlog.dirs={place.log_dir}\nlog.retention.mss=600000\n")
        shown = keys(config("show", "--json")[1])
        assert shown["retention.ms"]["value"] == 604_800_000
        assert shown["retention.bytes"]["value"] == -1
        orders = keys(config("show", "--json", "--topic", "orders")[1], "orders")
        assert "retention.bytes" not in orders, "nothing is deleted from a compacted topic"

    def test_topics_that_differ_are_counted_and_the_option_named(self, config) -> None:
        out = " ".join(config("show")[1].split())
        assert "3 topics have values of their own: --topic NAME shows them." in out, "__consumer_offsets, too"
        assert "of their own: --topic" not in config("show", "--topic", "orders")[1]
        status, _, err = config("show", "orders")
        assert status == 2
        assert "a topic is named by --topic" in err

    @pytest.mark.parametrize("action", ["show", "check", "explain"])
    def test_options_that_the_help_of_config_lists_go_with_each_action(self, config, action: str) -> None:
        key = ("retention.ms",) if action == "explain" else ()
        assert config(action, *key, "-v", "--no-pager")[0] == 0

    def test_text_has_a_line_for_each_key(self, config, place: Place) -> None:
        _, out, _ = config("show")
        assert " ".join(out.split()).startswith(f"Log dirs: {place.log_dir} Files read: {place.config}, ")
        assert "retention.ms          100m (6000000)" in out
        assert f"{place.properties} line 4, as log.retention.minutes" in out
        left = len(TOPIC_KEYS) + len(BROKER_KEYS) - 6
        assert f"{left} more keys with Kafka's default: --all shows them.\n" in out

    def test_without_any_file_the_limits_that_nobody_stated_are_all_that_differs(self, capsys) -> None:
        assert main(["config", "show"]) == 0
        out = capsys.readouterr().out
        assert "retention.ms     no limit (-1)  nobody stated it" in out
        assert "Log dirs: none is named" in out

    def test_a_pattern_without_a_topic_stays_a_warning(self, config, place: Place) -> None:
        place.config.write_text(place.config.read_text().replace('"or*"', '"orders-*"'))
        status, _, err = config("show")
        assert status == 0
        assert err.endswith(
            "these [topics] match no topic here: orders-* "
            "(it matches partitions, and [topics] takes topic names: did you mean orders?)\n"
        )

    def test_a_log_dir_that_is_missing_is_told(self, config, place: Place) -> None:
        shutil.rmtree(place.log_dir)
        status, _, err = config("show")
        assert status == 6
        assert "does not exist" in err

    def test_values_of_another_broker_are_told_as_such(self, config, place: Place) -> None:
        place.properties.write_text(place.properties.read_text().replace("node.id=1", "node.id=2"))
        status, _, err = config("show")
        assert status == 0
        assert "FOREIGN_CONFIG" in err


class TestExplain:
    def test_every_statement_stands_strongest_first_and_a_star_marks_the_one_that_holds(
        self, config, place: Place
    ) -> None:
        status, out, _ = config("explain", "retention.ms", "--topic", "orders", "--set", "retention.ms=2d")
        assert status == 0
        lines = " ".join(out.split())
        told = [
            "retention.ms for topic orders: 2d (172800000)",
            "* 2d (172800000) --set",
            f'3d (259200000) {place.config} line 7, [topics."or*"]',
            f"100m (6000000) {place.properties} line 4, as log.retention.minutes",
            f"1d (86400000) {place.properties} line 3, as log.retention.hours (does not count:",
            "7d (604800000) Kafka's default",
            "How old the newest record of a segment may be; -1 is no limit.",
            "Type: time, at least -1; a plain number counts ms, and a suffix may follow: ms, s, m, h, d.",
            "Kafka's default: 7d (604800000).",
            "call it log.retention.ms, log.retention.minutes, log.retention.hours; the first one that is set counts.",
        ]
        places = [lines.index(one) for one in told]
        assert places == sorted(places)
        assert out.count("*") == 2  # the second one is that of the glob

    def test_where_a_value_is_stated_goes_on_below_its_beginning(self, config, monkeypatch) -> None:
        monkeypatch.setenv("COLUMNS", "50")
        _, out, _ = config("explain", "retention.ms", "--topic", "__consumer_offsets")
        lines = out.splitlines()
        begin = next(number for number, line in enumerate(lines) if "Kafka's default (does not" in line)
        assert lines[begin].index("Kafka's default") == lines[begin + 1].index("count: topics named")

    def test_that_a_policy_counts_as_unknown_is_told_of_the_policy_alone(self, config, place: Place) -> None:
        told = "It counts as unknown, so everything stays: "
        assert told not in config("explain", "cleanup.policy", "--topic", "plain")[1]
        shutil.rmtree(place.log_dir / METADATA_DIR)
        assert told in config("explain", "cleanup.policy", "--topic", "plain")[1]
        assert told not in config("explain", "retention.ms", "--topic", "plain")[1]

    @pytest.mark.parametrize("name", ["log.retention.hours", "retention.ms", "log.retention.ms"])
    def test_any_name_of_the_key_will_do(self, config, name: str) -> None:
        _, out, _ = config("explain", name)
        assert out.startswith("retention.ms for topics without a value of their own: 100m (6000000)\n")

    def test_topics_with_another_value_are_listed_without_a_topic(self, config, place: Place) -> None:
        _, out, _ = config("explain", "retention.ms")
        rest = out[out.index("Another value") :].splitlines()
        assert rest[0] == "Another value holds for 3 topics:"
        assert rest[1].split() == ["no", "limit", "(-1)", "__consumer_offsets", "(nobody", "stated", "it)"]
        assert rest[2].split() == ["5ms", "audit", "(cluster", "metadata:", "topic)"]
        assert " ".join(" ".join(rest[3:]).split()) == f'3d (259200000) orders ({place.config} line 7, [topics."or*"])'
        _, out, _ = config("explain", "retention.ms", "--json")
        assert sorted(json.loads(out)["differing_topics"]) == ["__consumer_offsets", "audit", "orders"]

    def test_many_topics_with_one_value_are_one_line(self, config, place: Place) -> None:
        for number in range(300):
            (place.log_dir / f"or-{number}-0").mkdir()
        _, out, _ = config("explain", "max.delete.ratio")
        assert "or-0, or-1, or-10, or-100, or-101 and 296 more" in " ".join(out.split())

    def test_what_does_not_reach_an_internal_topic_is_told(self, config) -> None:
        _, out, _ = config("explain", "retention.ms", "--topic", "__consumer_offsets")
        assert out.startswith("retention.ms for topic __consumer_offsets: no limit (-1)\n")
        assert "(does not count: topics named __* take retention.* only from" in " ".join(out.split())

    def test_json_is_that_of_show_with_one_key(self, config) -> None:
        _, out, _ = config("explain", "retention.ms", "--topic", "orders", "--json")
        _, shown, _ = config("show", "--topic", "orders", "--json")
        assert keys(out, "orders") == {"retention.ms": keys(shown, "orders")["retention.ms"]}

    def test_a_key_of_brokers_has_no_topics(self, config) -> None:
        status, out, _ = config("explain", "log.cleaner.threads")
        assert (status, out.splitlines()[0]) == (0, "log.cleaner.threads: 2")
        assert "Another value" not in out
        status, _, err = config("explain", "log.cleaner.threads", "--topic", "orders")
        assert status == 2
        assert "holds for all topics alike; leave --topic out" in err

    @pytest.mark.parametrize(
        ("key", "told"),
        [
            ("retentoin.ms", "no such key; did you mean retention.ms?"),
            ("cleaner.threads", "no such key; did you mean log.cleaner.threads?"),
            ("kafka.defaults", "is no key of Kafka, but a setting of the file: states that the broker runs on"),
        ],
    )
    def test_a_mistyped_key_is_wrong_usage_with_the_nearest_name(self, config, key: str, told: str) -> None:
        status, out, err = config("explain", key)
        assert (status, out) == (2, "")
        assert told in err

    def test_a_glob_that_names_several_topics_is_wrong_usage(self, config) -> None:
        status, _, err = config("explain", "retention.ms", "--topic", "*")
        assert status == 2
        assert "names 5 topics; name one" in err

    @pytest.mark.parametrize("key", [key.name for key in (*TOPIC_KEYS, *BROKER_KEYS)])
    def test_every_key_can_be_explained_without_any_file(self, key: str, capsys) -> None:
        assert main(["config", "explain", key]) == 0
        out = capsys.readouterr().out
        assert out.startswith(key)
        assert "\nType: " in out
        assert max(map(len, out.splitlines())) <= 80


class TestCheck:
    def test_sound_files_are_one_line(self, config, place: Place) -> None:
        status, out, err = config("check")
        assert (status, err) == (0, "")
        compared = f"; [topics] is compared with the topics of {place.log_dir}"
        assert out == f"no problem found in {place.config}, {place.properties}{compared}\n"
        place.config.write_text(CONFIG.format(log_dir=place.log_dir).partition("[topics")[0])
        assert "[topics]" not in config("check")[1]

    @pytest.mark.parametrize(
        ("stated", "told"),
        [
            ("retention.ms = 3", "retention.ms is 3ms ({}): less than an hour; did you mean 3d?"),
            (
                "retention.ms = 604800",
                "retention.ms is 10m 4s ({}): less than an hour; 604800 seconds are 7d: did you mean that?",
            ),
            ("retention.ms = '30m'", "retention.ms is 30m ({}): less than an hour; did you mean 30d?"),
            ("retention.ms = 0", "retention.ms is 0ms ({}): less than an hour"),
            ("delete.retention.ms = 7", "delete.retention.ms is 7ms ({}): less than an hour; did you mean 7d?"),
            (
                "retention.bytes = 1",
                "retention.bytes is 1 byte ({}): less than a segment, which has 1MiB; did you mean 1GiB?",
            ),
            ("retention.bytes = '1000KiB'", "retention.bytes is 1000KiB ({}): less than a segment, which has 1MiB"),
            ("retention.ms = '1h'", None),
            ("retention.ms = -1", None),
            ("retention.bytes = '1MiB'", None),
            ("retention.bytes = -1", None),
        ],
    )
    @pytest.mark.parametrize("table", ["defaults", "topics.a"])
    def test_a_limit_below_an_hour_or_a_segment_is_a_warning(
        self, config, place: Place, table: str, stated: str, told: str | None
    ) -> None:
        place.config.write_text(f"[defaults]\nsegment.bytes = '1MiB'\nsegment.ms = '7d'\n[{table}]\n{stated}\n")
        if table == "defaults":
            place.config.write_text(f"[defaults]\nsegment.bytes = '1MiB'\nsegment.ms = '7d'\n\n{stated}\n")
        status, out, err = config("check")
        assert status == 0
        assert err == (f"logcleaner: {told.format(f'{place.config} line 5')}\n" if told else "")
        assert out.startswith("nothing that a run would refuse found in " if told else "no problem found in ")

    def test_a_limit_below_the_segments_of_kafkas_default_is_a_warning(self, config, place: Place) -> None:
        place.config.write_text("[topics.a]\nretention.bytes = '512MiB'\n")
        assert "retention.bytes is 512MiB" in config("check")[2]
        place.config.write_text("[topics.a]\nretention.bytes = '512MiB'\nsegment.bytes = '1MiB'\n")
        assert config("check")[2] == ""

    def test_topics_are_looked_for_in_the_log_dirs_of_the_configuration(self, config, place: Place) -> None:
        place.config.write_text(f"log.dirs = '{place.log_dir}'\n[topics.nosuch]\nretention.ms = '7d'\n")
        status, out, err = config("check")
        assert status == 0
        assert err == f"logcleaner: {place.config}: these [topics] match no topic here: nosuch\n"
        assert out.endswith(f"; [topics] is compared with the topics of {place.log_dir}\n")
        shutil.rmtree(place.log_dir)
        status, out, err = config("check")
        assert (status, err) == (0, "")
        assert "[topics] is not compared with any topics" in out

    def test_a_page_that_run_would_refuse_to_start_for_is_refused(self, config, place: Place, monkeypatch) -> None:
        page = place.config.parent / "plan.html"
        place.config.write_text(f"[report]\nhtml = '{page}'\n")
        assert config("check")[0] == 0
        monkeypatch.setattr("cleaner.report.html.is_drawable", lambda: False)
        status, _, err = config("check")
        assert status == 2
        assert "needs pygal, which is not installed" in err

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            (
                "retention.mss = 1",
                "did you mean retention.ms? It goes into the table [defaults], or into [topics.NAME]",
            ),
            ("topic.x.retention.ms = 1", "did you mean the table [topics.x]?"),
            ("[topic.x]\nretention.ms = 1", "did you mean the table [topics.x]?"),
            ("[default]\nretention.ms = 1", "did you mean the table [defaults]?"),
            ("log.dirz = 1", "did you mean log.dir"),
        ],
    )
    def test_a_slip_above_all_tables_is_told_where_it_belongs(self, config, place: Place, text, told) -> None:
        place.config.write_text(f"{text}\n")
        status, _, err = config("check")
        assert status == 2
        assert told in err

    def test_no_log_dir_is_touched(self, config, place: Place) -> None:
        shutil.rmtree(place.log_dir)
        assert config("check")[0] == 0

    def test_all_problems_of_all_files_are_told_at_once_each_once_with_its_line(self, config, place: Place) -> None:
        place.config.write_text(
            'server.properties = "server.properties"\nretention.ms = 1\n[defaults]\nretention.ms = "soon"\n'
            "[topics.a]\nsegment.msx = 1\n[metrics]\nlisten = 5\n"
        )
        place.properties.write_text("node.id=1\nlog.retention.hours=0\nlog.segment.bytes=1GiB\n")
        status, out, err = config("check", "--set", "retention.bytes=x")
        assert (status, out) == (2, "")
        wrong = [line.removeprefix("logcleaner: ").split(":")[0] for line in err.splitlines()]
        assert sorted(wrong) == sorted(
            [
                *(f"{place.config} line {line}" for line in (2, 4, 6, 8)),
                *(f"{place.properties} line {line}" for line in (2, 3)),
                "--set",
            ]
        )

    def test_values_that_contradict_each_other_in_two_files_are_wrong(self, config, place: Place) -> None:
        place.config.write_text(place.config.read_text() + '[topics.x]\nmin.compaction.lag.ms = "2d"\n')
        place.properties.write_text(place.properties.read_text() + "log.cleaner.max.compaction.lag.ms=5\n")
        status, _, err = config("check")
        assert status == 2
        assert f"must not exceed max.compaction.lag.ms = 5ms ({place.properties} line 6)" in err

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ("[defaults\n", "is not valid TOML"),
            (
                'server.properties = "nowhere"\n',
                "{config}: server.properties = '{root}/nowhere': cannot be read: No such file or directory",
            ),
            ('server.properties = "data/meta.properties"\n', "is the meta.properties of a log dir"),
        ],
    )
    def test_what_cannot_be_read_is_a_problem_too(self, config, place: Place, text: str, told: str) -> None:
        place.config.write_text(text)
        status, _, err = config("check")
        (line,) = err.splitlines()
        assert status == 2
        assert told.format(config=place.config, root=place.config.parent) in line

    def test_a_file_that_is_missing_or_forbidden_is_a_problem(self, place: Place, tmp_path: Path, capsys) -> None:
        assert main(["config", "check", "--server-properties", str(tmp_path / "nowhere")]) == 2
        assert capsys.readouterr().err.startswith("logcleaner: server.properties = ")
        assert main(["config", "check", "--config", str(tmp_path / "nowhere")]) == 2
        assert "cannot be read: No such file or directory" in capsys.readouterr().err
        place.config.chmod(0)
        done = run_as_ordinary_user("config", "check", "--config", place.config)
        assert done.returncode == 2
        assert "cannot be read: Permission denied" in done.stderr

    def test_nothing_to_check_is_wrong_usage(self, capsys) -> None:
        assert main(["config", "check"]) == 2
        assert "add --config FILE or --server-properties FILE" in capsys.readouterr().err

    def test_server_properties_alone_are_checked(self, place: Place, capsys) -> None:
        assert main(["config", "check", "--server-properties", str(place.properties)]) == 0
        assert capsys.readouterr().out == f"no problem found in {place.properties}\n"
        place.properties.write_text("log.dirs=/x\nlog.roll.ms=0\n")
        assert main(["config", "check", "--server-properties", str(place.properties)]) == 2
        assert f"{place.properties} line 2: log.roll.ms = '0': must be at least 1" in capsys.readouterr().err

    def test_patterns_without_a_topic_are_errors_if_a_log_dir_is_named(self, config, place: Place) -> None:
        place.config.write_text(
            "".join(
                f'[topics."{pattern}"]\nretention.ms = "7d"\n'
                for pattern in ("orders-*", "plian", "elsewhere", "zz*", "audit")
            )
        )
        assert config("check")[0] == 0
        status, out, err = config("check", "--log-dir", str(place.log_dir))
        assert (status, out) == (2, "")
        assert [line.removeprefix(f"logcleaner: {place.config} ") for line in err.splitlines()] == [
            f'line 2: [topics."orders-*"]: matches no topic of {place.log_dir}; it matches partitions, and [topics] '
            "takes topic names: did you mean orders?",
            f'line 4: [topics."plian"]: matches no topic of {place.log_dir}; did you mean plain?',
            f'line 8: [topics."zz*"]: matches no topic of {place.log_dir}',
        ]

    def test_with_a_log_dir_whose_topics_match_all_is_well(self, config, place: Place) -> None:
        status, out, err = config("check", "--log-dir", str(place.log_dir))
        assert (status, err) == (0, "")
        assert out.endswith(f"the topics of {place.log_dir}\n")

    def test_what_contradicts_the_cluster_metadata_is_found_with_a_log_dir(self, config, place: Place) -> None:
        place.config.write_text('[topics.orders]\nmin.compaction.lag.ms = "2d"\n')
        shutil.rmtree(place.log_dir / METADATA_DIR)
        write_metadata(place.log_dir, orders={"max.compaction.lag.ms": "5", "min.compaction.lag.ms": "9"})
        assert config("check")[0] == 0
        assert config("check", "--log-dir", str(place.log_dir))[0] == 2


def test_piped_table_has_no_blanks_behind_its_rows(tmp_path, capsys):
    properties = tmp_path / "server.properties"
    properties.write_text("node.id=1\nlog.retention.ms=3600000\nlog.segment.bytes=1048576\n")
    assert main(["config", "show", "--server-properties", str(properties), "--all"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 20
    assert [line for line in lines if line != line.rstrip()] == []
