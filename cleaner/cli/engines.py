"""``--engine``: who carries the compactions out."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from storage.errors import InvalidConfig

if TYPE_CHECKING:
    from cleaner.engine.compactor import Compactor

_EMBEDDED: Final = "local[*]"


def add_engine_arguments(group: argparse._ArgumentGroup) -> None:
    """Which engine, and where its master is."""
    group.add_argument(
        "--engine", choices=("local", "spark"), default="local", help="who compacts: this process, or a Spark cluster"
    )
    group.add_argument(
        "--master", metavar="URL", help=f"with --engine spark: of the cluster; {_EMBEDDED}, on this machine, by default"
    )


@contextmanager
def opened_compactor(args: argparse.Namespace) -> Iterator[Compactor | None]:
    """The engine that was asked for; None is this process. A dry run compacts nothing, and needs no cluster.

    Raises: InvalidConfig for a master without Spark; SparkUnavailable.
    """
    if args.engine == "local" and args.master:
        raise InvalidConfig("--master", args.master, "goes with --engine spark only")
    if args.engine == "local" or args.dry_run:
        yield None
        return
    try:
        from cleaner.spark.bulk.bulk import Bulk
        from cleaner.spark.session import start_session
    except ImportError as error:
        from cleaner.spark.errors import SparkUnavailable

        raise SparkUnavailable(f"{error.name} is not installed", "pip install 'logcleaner[spark]'") from error
    session = start_session(args.master or _EMBEDDED, {})
    try:
        yield Bulk(session)
    finally:
        session.stop()
