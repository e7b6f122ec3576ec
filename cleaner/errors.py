"""An error as a line for people."""

from __future__ import annotations


def told(error: BaseException) -> str:
    """Return where an error happened and what is wrong: a path alone is no cause, and a cause alone no place."""
    if isinstance(error, MemoryError):
        return str(error) or "not enough memory"
    if isinstance(error, OSError) and error.strerror:
        places = [str(place) for place in (error.filename, error.filename2) if place is not None]
        return f"{' to '.join(places)}: {error.strerror}" if places else error.strerror
    if isinstance(error, OSError | KeyError | EOFError):
        return f"{error} ({type(error).__name__})"
    return str(error) or type(error).__name__
