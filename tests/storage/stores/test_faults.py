"""Two hundred bad days, drawn from seeds: each ends with the right bytes, or with one clear line."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from storage.stores import opening
from storage.stores.catalogue import catalogue_of
from storage.stores.errors import (
    ExpiredCredentials,
    ForbiddenStore,
    ObjectChanged,
    StoreFailed,
    StoreUnreachable,
)
from storage.stores.paths import StoredPath
from storage.stores.stored_file import StoredFile
from tests.conftest import Samples
from tests.storage.stores.conftest import forget_stores
from tests.storage.stores.proxy import Fault, Proxy
from tests.storage.stores.servers import SCHEME, configuration

SEEDS = 200
TOLD = (ExpiredCredentials, ForbiddenStore, ObjectChanged, StoreUnreachable, FileNotFoundError)
PASSING = [Fault.CUT, Fault.RESET, Fault.SLOW_DOWN, Fault.FAILED, Fault.DELAY]
OTHERS = [Fault.REPLACED, Fault.DENIED, Fault.EXPIRED, Fault.GONE]
LOG = Path("orders-0/00000000000000000000.log")
SMALL_WINDOW = 100_000

Reading = Callable[[StoredPath, bytes, random.Random], None]


def whole(path: StoredPath, data: bytes, _: random.Random) -> None:
    assert catalogue_of(path.place).whole(path.key) == data


def ahead(path: StoredPath, data: bytes, draw: random.Random) -> None:
    file = StoredFile.open(path)
    try:
        file.read_ahead(0, len(data))
        at = 0
        while at < len(data):
            until = min(at + draw.randrange(1, 200_000), len(data))
            assert file.pread(until - at, at) == data[at:until]
            at = until
    finally:
        file.close()


def here_and_there(path: StoredPath, data: bytes, draw: random.Random) -> None:
    file = StoredFile.open(path)
    for _ in range(12):
        at = draw.randrange(len(data))
        assert file.pread(5000, at) == data[at : at + 5000]


def listing(path: StoredPath, data: bytes, _: random.Random) -> None:
    sizes = {entry.name: entry.size_bytes for entry in catalogue_of(path.place).entries(path.parent.key)}
    assert sizes[path.name] == len(data)
    assert len(sizes) >= 10


READINGS: list[Reading] = [whole, ahead, here_and_there, listing]


def test_bytes_are_right_or_the_error_is_clear(
    through: Proxy, bucket: str, samples: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage.stores.stored_file.WINDOW_BYTES", SMALL_WINDOW)
    data = (samples.root / "before" / LOG).read_bytes()
    assert len(data) > 5 * SMALL_WINDOW
    outcomes: Counter[str] = Counter()
    for seed in range(SEEDS):
        draw = random.Random(seed)
        forget_stores()
        opening.configure(SCHEME, configuration(through.url))
        rate, kinds = draw.choice([0.1, 0.3, 0.8]), draw.choice([PASSING, PASSING, PASSING + OTHERS])
        through.fault = faulty(random.Random(seed), rate, kinds)
        outcomes[outcome(READINGS[seed % len(READINGS)], StoredPath(f"{bucket}/new/{LOG}"), data, draw)] += 1
    assert outcomes.total() == SEEDS
    assert outcomes["right"] > SEEDS // 2, outcomes
    assert {"StoreUnreachable", "ObjectChanged"} <= outcomes.keys(), outcomes


def outcome(reading: Reading, path: StoredPath, data: bytes, draw: random.Random) -> str:
    """Read, and return how that ended. Raises: AssertionError for other bytes, and what is no clear error."""
    try:
        reading(path, data, draw)
    except StoreFailed as error:  # no body says more of an answer to HEAD
        told = error
        assert str(told).endswith("the store answers 400; perhaps the credentials are wrong or have expired")
    except TOLD as error:
        told = error
    else:
        return "right"
    assert "\n" not in str(told)
    return type(told).__name__


def faulty(draw: random.Random, rate: float, kinds: list[Fault]) -> Callable[[str, str], Fault]:
    return lambda _method, _path: draw.choice(kinds) if draw.random() < rate else Fault.NONE
