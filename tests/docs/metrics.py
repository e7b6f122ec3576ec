"""The table of metrics: the site has it on the page of docs/metrics.md."""

from __future__ import annotations

from cleaner.metrics import families as names
from tests.docs.tables import table


def families() -> str:
    """Return the table of every metric."""
    return table(("Metric", "Labels", ""), map(_row, names.ALL))


def _row(family: names.Family) -> tuple[str, ...]:
    labels = "" if family.labels == names.PARTITION else ", ".join(family.labels)
    return (f"`{family.name}`{'' if family.is_few else ' (`all`)'}", labels, family.help)
