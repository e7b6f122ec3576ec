"""Hypothesis strategies: logs of a few batches, and logs that something has bitten."""

from __future__ import annotations

import os
from typing import Final

from hypothesis import settings
from hypothesis import strategies as st

from storage.machine.library import LEVEL_VARIABLE
from tests.sampled import is_whole
from tests.storage.kernels.bytes_of import Batch, Record

EXAMPLES_MAX: Final = 25 if LEVEL_VARIABLE in os.environ and not is_whole() else 100
"""A plain run tries fewer at the lower CPU levels: the code is the same, compiled otherwise."""
compiled = settings(max_examples=EXAMPLES_MAX)
"""For tests whose first example may compile a kernel that is no entry point."""

_keys = st.none() | st.sampled_from([b"", b"a", b"bb", b"a key of 18 bytes!", b"k" * 7, b"k" * 8, b"k" * 300])
_values = st.none() | st.binary(max_size=20) | st.just(b"x" * 200)
_headers = st.lists(st.tuples(st.binary(max_size=3), st.none() | st.binary(max_size=3)), max_size=2).map(tuple)
_timestamps = st.integers(-(2**40), 2**41) | st.integers(-100, 100)


@st.composite
def records(draw: st.DrawFn) -> tuple[Record, ...]:
    steps = draw(st.lists(st.integers(1, 3) | st.just(200), max_size=6))
    deltas = [sum(steps[:i]) for i in range(len(steps))]
    return tuple(Record(draw(_keys), draw(_values), delta, draw(_timestamps), draw(_headers)) for delta in deltas)


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    content = draw(records())
    last = max((record.offset_delta for record in content), default=0)
    return Batch(
        content,
        attributes=draw(st.sampled_from([0, 0x08, 0x10, 0x40, 0x48, 0x30])),
        base_timestamp=draw(st.integers(0, 100)),
        max_timestamp=draw(_timestamps),
        last_offset_delta=last + draw(st.integers(0, 2)),
        producer=draw(st.sampled_from([(-1, -1, -1), (7, 2, 2**31 - 1)])),
        leader_epoch=draw(st.integers(-1, 9)),
    )


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    next_offset, encoded = draw(st.integers(0, 5)), []
    for batch in draw(st.lists(batches(), max_size=5)):
        encoded.append(batch.at(next_offset).encode())
        next_offset += batch.last_delta + draw(st.integers(1, 3))
    return b"".join(encoded)


_extreme = st.sampled_from([0x00, 0x01, 0x7F, 0x80, 0xFE, 0xFF])


@st.composite
def damaged_logs(draw: st.DrawFn) -> bytes:
    """A log with a few bytes changed, some taken out or put in, and perhaps its end cut off."""
    data = bytearray(draw(logs()))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        match draw(st.sampled_from(["set", "flip", "cut", "insert", "remove"])):
            case "set" if data:
                data[at] = draw(_extreme)
            case "flip" if data:
                data[at] ^= 1 << draw(st.integers(0, 7))
            case "cut":
                del data[at:]
            case "insert":
                data[at:at] = draw(st.binary(max_size=4))
            case _:
                del data[at : at + 1]
    return bytes(data)
