"""The benchmark of ``restore-tier`` measures it beside the client of the store, in each form of a tier."""

from __future__ import annotations

import pytest

from tests.benchmarks.restoring import FORMS, interval, main
from tests.storage.stores.servers import SCHEME, serving

pytestmark = pytest.mark.skipif(SCHEME != "s3", reason="the benchmark speaks to servers of S3")


def test_each_form_is_measured_beside_the_client(tmp_path, capsys):
    forms = [option for form in (FORMS[0], FORMS[-1]) for option in ("--form", form)]
    with serving() as url:
        assert main([str(tmp_path), "--server", url, "--gib", "0.001", "--rounds", "1", *forms]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert all("the client" in line and "with SHA-256" in line for line in lines)
    assert list(tmp_path.iterdir()) == []


def test_interval_leaves_out_extremes_once_there_are_enough_values():
    assert interval([3, 1, 2]) == (1, 3)
    assert interval(range(10)) == (1, 8)
