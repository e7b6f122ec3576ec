import json

from tests.cleaner.report.plans import a_partition, a_plan, unreadable


def test_table_goes_to_stdout(engine, run, tmp_path, capsys) -> None:
    (tmp_path / "clicks-0").mkdir()
    engine.given = a_plan(a_partition("clicks-0", 9, 1))
    assert run("topics", "--topic", "clicks") == 0
    assert "clicks-0" in capsys.readouterr().out
    assert engine.asked == [("plan", ("clicks",))]


def test_json_is_one_document(engine, run, capsys) -> None:
    engine.given = a_plan(a_partition("clicks-0", 9, 1))
    assert run("topics", "--json") == 0
    assert json.loads(capsys.readouterr().out)["schema"] == "logcleaner.topics/1"


def test_unreadable_partition_is_shown_and_fails(engine, run, capsys) -> None:
    engine.given = a_plan(a_partition("clicks-0", 1), unreadable("orders-1", "cannot be read"))
    assert run("topics") == 1
    printed = capsys.readouterr().out
    assert "clicks-0" in printed
    assert "FAILED orders-1: cannot be read" in printed


def test_partition_that_failed_and_is_the_same_since_is_shown_with_the_cause(engine, run, capsys) -> None:
    engine.given, engine.failed = a_plan(a_partition("orders-0", 9)), "0.log at byte 0: CRC-32C mismatch"
    assert run("topics") == 1
    printed = capsys.readouterr().out
    assert "FAILED orders-0: 0.log at byte 0: CRC-32C mismatch" in printed
    assert run("topics", "--json") == 1
    (partition,) = json.loads(capsys.readouterr().out)["partitions"]
    assert (partition["error"], partition["segments"]) == (engine.failed, 1)


def test_log_dir_that_is_wrong_as_a_whole_fails(engine, run, capsys) -> None:
    engine.given = a_plan(errors=("garbled checkpoint",))
    assert run("topics") == 1
    assert "FAILED: garbled checkpoint" in capsys.readouterr().out


def test_quiet_does_not_go_with_verbose(engine, run, capsys) -> None:
    assert run("topics", "-q", "-v") == 2
    assert "--quiet: does not go with --verbose" in capsys.readouterr().err


def test_order_that_is_none_is_told_with_those_that_are(engine, run, capsys) -> None:
    assert run("topics", "--sort", "size") == 2
    told = capsys.readouterr().err
    assert all(sort in told for sort in ("bytes", "reclaim", "dirty", "expiry"))
