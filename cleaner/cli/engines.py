"""The option ``--engine``: this process or a Spark cluster carries out the compactions."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from cleaner.errors import how_to_install
from storage.errors import InvalidConfig

if TYPE_CHECKING:
    from cleaner.engine.compactor import Compactor

_EMBEDDED: Final = "local[*]"


def add_engine_arguments(group: argparse._ArgumentGroup) -> None:
    """Add the options ``--engine`` and ``--master``."""
    group.add_argument(
        "--engine",
        choices=("local", "spark"),
        default="local",
        help="compact in this process (local, the default) or with Spark",
    )
    group.add_argument(
        "--master",
        metavar="URL",
        help=f"with --engine spark: master of the cluster (default: {_EMBEDDED}, this machine)",
    )


@contextmanager
def opened_compactor(args: argparse.Namespace) -> Iterator[Compactor | None]:
    """Open the engine that ``--engine`` names; yield None for this process. A dry run needs no cluster.

    Raises: InvalidConfig for ``--master`` without Spark; SparkUnavailable.
    """
    if args.engine == "local" and args.master:
        raise InvalidConfig("--master", args.master, "needs --engine spark")
    if args.engine == "local" or args.dry_run:
        yield None
        return
    try:
        from cleaner.spark.bulk.bulk import Bulk
        from cleaner.spark.session import start_session
    except ImportError as error:
        from cleaner.spark.errors import SparkUnavailable

        raise SparkUnavailable(f"{error.name} is not installed", how_to_install("spark")) from error
    session = start_session(args.master or _EMBEDDED, {})
    try:
        yield Bulk(session)
    finally:
        session.stop()
