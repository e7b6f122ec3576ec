"""Reports as one page of HTML that needs no other file: it opens from a disk, by mail, in a ticket.

A page is made of a report's JSON document, so each figure on it is in that document. Nouns:
``PageContent``, ``Chart`` (a picture, drawn here), ``DataTable`` (rows that the page's own script sorts and filters).

The charts are drawn by pygal, and become SVG within the page. So the page needs no script for them and no permission to
evaluate code, and the reader's colours hold in them.
"""

import importlib.util


def is_drawable() -> bool:
    """Return whether the extra ``report`` is installed, which draws the charts."""
    return importlib.util.find_spec("pygal") is not None
