"""The file of a page: checked before a run begins, and written once the run has released its locks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cleaner import __version__
from cleaner.errors import as_unwritable, how_to_install
from cleaner.report.overview.provenance import ConfigurationFile, Provenance
from storage.errors import InvalidConfig

if TYPE_CHECKING:
    from cleaner.config.layers import LoadedLayers


def check_page(key: str, path: Path, log_dirs: Iterable[Path] = ()) -> None:
    """Refuse a page that could not be written, before anything is done.

    Args:
        key: the option or key that names the file.
        path: the file.
        log_dirs: no page is written into one of them.

    Raises: InvalidConfig.
    """
    from cleaner.replacing import check_replaceable  # noqa: PLC0415 - few runs make a page

    check_drawable(key, path)
    check_replaceable(key, path, log_dirs, "report.html")


def check_drawable(key: str, path: Path) -> None:
    """Refuse a page if the package that draws it is not installed. Raises: InvalidConfig."""
    from cleaner.report.html import is_drawable  # noqa: PLC0415 - few runs make a page

    if not is_drawable():
        raise InvalidConfig(key, str(path), f"needs pygal, which is not installed; {how_to_install('report')}")


def provenance_of(loaded: LoadedLayers, command: Sequence[str], made_ms: int) -> Provenance:
    """Return the version, the command line, the moment and the configuration of a report that is made now.

    Args:
        loaded: the configuration.
        command: the words of the command line, without the program's name.
        made_ms: the clock, epoch ms.
    """
    found = [ConfigurationFile(str(path), _sha256(loaded.contents.get(path))) for path in loaded.files]
    if loaded.cluster:
        found.append(ConfigurationFile(str(loaded.cluster.directory), None))
    return Provenance(__version__, ("logcleaner", *command), made_ms, tuple(map(str, loaded.log_dirs)), tuple(found))


def _sha256(data: bytes | None) -> str | None:
    return None if data is None else hashlib.sha256(data).hexdigest()


def write_page(path: Path, document: Mapping[str, Any]) -> None:
    """Render the page of a report's document, and write it as a whole.

    Raises: UnwritableFile.
    """
    from cleaner.replacing import replace_file  # noqa: PLC0415 - as in ``check_page``
    from cleaner.report.html.pages import page_of  # noqa: PLC0415 - as in ``check_page``

    page = page_of(document).encode("utf-8")
    with as_unwritable(path):
        replace_file(path, page)
