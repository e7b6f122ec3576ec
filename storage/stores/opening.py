"""Opens each store once a process, with the credentials that the process has, or that it was handed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from threading import RLock
from typing import Any, Final

from storage.stores.store import Store

_GIVEN: Final[dict[str, dict[str, Any]]] = {}
"""By scheme: what a client is told besides what the environment says."""
_KINDS: Final[dict[str, Callable[[str, Mapping[str, Any]], Store]]] = {}
"""By scheme: what opens the stores that a room above this one makes."""
_OPENING: Final = RLock()
"""A store may be made of others, which it opens."""


def configure(scheme: str, config: Mapping[str, Any]) -> None:
    """Have stores of a scheme opened with a configuration, over what the environment says.

    Args:
        scheme: as in ``SCHEMES``.
        config: obstore's keys for buckets, Hadoop's for HDFS. The values may be secrets: nobody prints them.
    """
    if _GIVEN.get(scheme) != config:
        _GIVEN[scheme] = dict(config)
        _opened.cache_clear()


def add_kind(scheme: str, opens: Callable[[str, Mapping[str, Any]], Store]) -> None:
    """Have stores of a scheme opened by a room above this one."""
    _KINDS[scheme] = opens


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
    if scheme in _KINDS:
        return _KINDS[scheme](place, config)
    if scheme == "hdfs":
        from storage.stores.hdfs import Hdfs  # noqa: PLC0415 - a run without a store imports this module, too

        return Hdfs(place, config)
    from storage.stores.objects import Bucket  # noqa: PLC0415 - as above

    return Bucket(place, config)
