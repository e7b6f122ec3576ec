"""The algorithms over arrays, the hot path of compaction. They are compiled when the package is built
(``storage.compiler``); to import this package imports no numba.

Nouns: a *window* holds bytes of a ``.log`` as ``uint8``; a *batch table* (``layout.BATCH``) has one row for each record
batch in the window; an *ordinal* is the number of a record in the order in which a round reads it; the *offset map*
leads from the hash of a key to the greatest ordinal seen; the *survivor bitmap* has one bit for each ordinal.

A round: ``scan`` fills the table, ``crc`` verifies the batches, ``map_walk`` puts their keys into the ``offset_map``
and marks survivors, ``decide`` decides each batch, ``rebuild`` (called by ``storage.codecs.rewrite_batches``) writes
it, ``index`` makes the index entries of the batches written. Kernels hold no state and raise nothing: each returns a
``status.Status`` with the row where it stopped, and the caller makes the error.
"""

import os
from contextlib import suppress


def check_usable() -> None:
    """Raise the reason why kernels cannot run: an installation that is not whole, or a CPU without SSE4.2.

    This imports no numpy, which such a CPU cannot import either.

    Raises:
        KernelsUnusable: one line for the user.
        InvalidConfig: the environment names a CPU level that this CPU does not have.
    """
    from storage.machine import library  # noqa: PLC0415 - importing the package loads nothing

    library.check()


def check_level() -> None:
    """Refuse a CPU level of the environment that this CPU does not have. If none is named, load nothing.

    Raises: InvalidConfig.
    """
    from storage.machine.library import LEVEL_VARIABLE, KernelsUnusable, level_name  # noqa: PLC0415 - as above

    if LEVEL_VARIABLE in os.environ:
        with suppress(KernelsUnusable):  # whoever needs kernels reports it
            level_name()


def why_unusable() -> str | None:
    """Return the reason why kernels cannot run, as one line; None if they run. Raises: InvalidConfig."""
    from storage.machine.library import KernelsUnusable  # noqa: PLC0415 - as above

    try:
        check_usable()
    except KernelsUnusable as error:
        return str(error)
    return None
