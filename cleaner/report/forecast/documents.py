"""The time that file systems last, as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from policies.forecast.runway import Runway


def documents(runways: Sequence[Runway]) -> list[dict[str, Any]]:
    """Return the runways as JSON: ``days`` is null if the file system does not fill, or if that is not known."""
    return [
        {
            "log_dirs": list(runway.log_dirs),
            "free_bytes": runway.free_bytes,
            "written_bytes_per_day": runway.born_bytes_per_day,
            "fills": None if runway.days is None or runway.is_endless_in_part else not runway.is_endless,
            "days": None if runway.days in {None, inf} else round(runway.days, 2),
            "partitions": runway.counted,
            "partitions_left_out": runway.left_out,
        }
        for runway in runways
    ]
