import pytest

from policies.config.config_keys import BROKER_KEY, TOPIC_KEY
from policies.forecast.what_if import ANSWERED, ANSWERED_EXACTLY, questions_of, refusal_of
from storage.errors import InvalidConfigs

DAY_MS = 86_400_000


def asked(*options: str, is_exact: bool = False) -> list[tuple[str, list[object]]]:
    return [(q.key, [stated.value for stated in q.values]) for q in questions_of(options, is_exact=is_exact)]


@pytest.mark.parametrize(
    ("story", "options", "expected"),
    [
        ("several values", ["retention.ms=1d, 36h,-1"], [("retention.ms", [DAY_MS, DAY_MS * 3 // 2, -1])]),
        ("each once", ["retention.ms=1d,24h,3d"], [("retention.ms", [DAY_MS, 3 * DAY_MS])]),
        ("a broker's name for a topic's key", ["log.retention.hours=24"], [("retention.ms", [DAY_MS])]),
        ("a list alone", ["cleanup.policy=compact,delete"], [("cleanup.policy", [("compact",), ("delete",)])]),
        ("a list in brackets", ["cleanup.policy=[compact,delete]"], [("cleanup.policy", [("compact", "delete")])]),
        (
            "a list among others",
            ["cleanup.policy=delete,[compact,delete],[]"],
            [("cleanup.policy", [("delete",), ("compact", "delete"), ()])],
        ),
        (
            "one key twice is one question, another key is another",
            ["retention.ms=1d", "retention.bytes=1MiB", "retention.ms=2d"],
            [("retention.ms", [DAY_MS, 2 * DAY_MS]), ("retention.bytes", [1 << 20])],
        ),
    ],
)
def test_questions(story: str, options: list[str], expected: list[tuple[str, list[object]]]) -> None:
    assert asked(*options) == expected, story


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("retention.ms", "--what-if = 'retention.ms': must be KEY=VALUE,VALUE, e.g. retention.ms=1d,3d,7d"),
        ("retention.ms=", "--what-if = 'retention.ms=': must be KEY=VALUE,VALUE, e.g. retention.ms=1d,3d,7d"),
        ("=1d", "--what-if = '=1d': must be KEY=VALUE,VALUE, e.g. retention.ms=1d,3d,7d"),
        ("retention.ms=1d,,2d", "--what-if = 'retention.ms=1d,,2d': has a blank value"),
        ("retentin.ms=1d", "--what-if: retentin.ms: no such key; did you mean retention.ms?"),
        ("retention.bytes=20G", "--what-if: retention.bytes = '20G': must be a whole number of 64 bits"),
        ("retention.ms=[1d,2d]", "--what-if: retention.ms = '[1d,2d]': must be a whole number of 64 bits"),
        ("cleanup.policy=[compact,delete", "--what-if: cleanup.policy = '[compact': [compact: each item must be"),
        ("min.cleanable.dirty.ratio=2", "--what-if: min.cleanable.dirty.ratio = '2': must be at most 1"),
        ("segment.ms=1d", "--what-if: segment.ms: says how large or old a segment becomes, not what of it stays; "),
        ("flush.ms=5", "--what-if: flush.ms: says how a broker writes, not what stays; --what-if takes cleanup.policy"),
        ("local.retention.ms=5", "--what-if: local.retention.ms: only a broker knows what lies in remote storage"),
        ("log.cleaner.enable=true", "--what-if: log.cleaner.enable: is a key of the broker, not of a topic"),
        ("delete.retention.ms=0", "--what-if: delete.retention.ms: only the records tell what it changes; add --exact"),
    ],
)
def test_what_has_no_answer_is_one_clear_line(option: str, told: str) -> None:
    with pytest.raises(InvalidConfigs) as error:
        asked(option)
    (problem,) = error.value.problems
    assert str(problem).startswith(told)


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(InvalidConfigs) as error:
        asked("segment.ms=1", "retention.ms=x,1d,y", "nothing")
    assert len(error.value.problems) == 4


def test_what_only_the_records_tell_needs_them() -> None:
    assert asked("delete.retention.ms=0", is_exact=True) == [("delete.retention.ms", [0])]


def test_every_key_is_answered_or_refused_with_a_reason() -> None:
    answered = {key for key in (*TOPIC_KEY, *BROKER_KEY) if refusal_of(key, is_exact=True) is None}
    assert answered == ANSWERED | ANSWERED_EXACTLY
