import math
from dataclasses import replace

import pytest

from cleaner.report.page import Page
from cleaner.report.runways import documents, lasts, lines
from policies.forecast.runway import Runway


def lasting(days: float | None, log_dir: str = "/data", left_out: int = 1) -> Runway:
    return Runway((log_dir,), 3 << 30, 1 << 30, days, 4, left_out)


@pytest.mark.parametrize(
    ("days", "words"),
    [
        (None, "not known"),
        (math.inf, "never full by the growth of 4 of 5 partitions"),
        (4000, "full in more than 10 years"),
        (12.25, "full in 12d 6h"),
        (0.5, "full in 12h"),
        (0, "full now"),
    ],
)
def test_lasts(days: float | None, words: str) -> None:
    assert lasts(lasting(days)) == words


@pytest.mark.parametrize(
    ("days", "words"),
    [
        (None, "full now; after a clean: not known"),
        (math.inf, "full now; after a clean: never full by the growth of 4 of 5 partitions"),
        (4000, "full now; after a clean: full in more than 10 years"),
        (7.25, "full now; after a clean: full in 7d 6h"),
        (0, "full now, and after a clean"),
    ],
)
@pytest.mark.parametrize("free_bytes", [0, 4095])
def test_full_disk_is_full_now_whatever_a_clean_would_free(days: float | None, words: str, free_bytes: int) -> None:
    assert lasts(replace(lasting(days), free_bytes=free_bytes)) == words


def test_never_is_said_only_where_every_partition_counts() -> None:
    assert lasts(lasting(math.inf, left_out=0)) == "never full"
    assert lasts(replace(lasting(math.inf, left_out=0), free_bytes=0)) == "full now; after a clean: never full"
    assert told(lasting(math.inf, left_out=0)) == "Runway never full at 1.0 GiB a day (last 7 days)"
    assert told(replace(lasting(math.inf, left_out=28), counted=3)) == (
        "Runway never full by the growth of 3 of 31 partitions, at 1.0 GiB a day (last 7 days); "
        "the growth of the others is not known"
    )


def told(*runways: Runway) -> str:
    page = Page()
    lines(runways, page)
    return " ".join(page.text.plain.split())


def test_one_file_system_needs_no_name() -> None:
    assert told(lasting(3.0)) == ("Runway full in 3d at 1.0 GiB a day (last 7 days, without 1 partition)")
    assert told(lasting(None)) == ("Runway not known: no partition tells how much was written in the last 7 days")


def test_several_have_their_log_dirs() -> None:
    assert told(lasting(3.0, "/a"), lasting(2.0, "/b")).count("without 1 partition") == 2
    assert "Runway /b: never full at 1.0 GiB a day" in told(lasting(3.0, "/a"), lasting(math.inf, "/b", 0))


def test_json_has_no_infinity() -> None:
    shown = documents([lasting(None), lasting(math.inf), lasting(math.inf, left_out=0), lasting(1.2345)])
    assert [(d["fills"], d["days"]) for d in shown] == [(None, None), (None, None), (False, None), (True, 1.23)]
