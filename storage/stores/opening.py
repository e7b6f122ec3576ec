"""Opens each store once a process, with the credentials that the process has, or that it was handed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from threading import Lock
from typing import Any, Final

from storage.stores.store import Store

_GIVEN: Final[dict[str, dict[str, Any]]] = {}
"""By scheme: what a client is told besides what the environment says."""
_OPENING: Final = Lock()


def configure(scheme: str, config: Mapping[str, Any]) -> None:
    """Have stores of a scheme opened with a configuration, over what the environment says.

    Args:
        scheme: as in ``SCHEMES``.
        config: obstore's keys for buckets, Hadoop's for HDFS. The values may be secrets: nobody prints them.
    """
    if _GIVEN.get(scheme) != config:
        _GIVEN[scheme] = dict(config)
        _opened.cache_clear()


def configured(scheme: str) -> Mapping[str, Any]:
    """Return what ``configure`` was told last."""
    return _GIVEN.get(scheme, {})


def store_of(place: str) -> Store:
    """Return the store of a URL. Raises: ClientMissing, StoreFailed."""
    with _OPENING:
        return _opened(place)


@cache
def _opened(place: str) -> Store:
    scheme = place.partition(":")[0]
    config = _GIVEN.get(scheme, {})
    if scheme == "hdfs":
        from storage.stores.hdfs import Hdfs  # noqa: PLC0415 - a run without a store imports this module, too

        return Hdfs(place, config)
    from storage.stores.objects import Bucket  # noqa: PLC0415 - as above

    return Bucket(place, config)
