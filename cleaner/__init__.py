"""The acting package: it reads facts, asks the policies, executes plans and reports to people.

Nouns:
    Cleaner: plans and cleans some log dirs.
    Settings: a configuration file, read and checked; without arguments, the defaults.
    load_layers: reads the sources that the settings name; returns log dirs and layers of configuration.
    Request: what a caller asks of a plan, above all for which moment.
    Outcome: what a run did, or would have done (``engine.outcome``).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cleaner.config.layers import Settings
    from cleaner.config.reader import load_layers
    from cleaner.engine.cleaner import Cleaner
    from policies.plan import Request

__version__ = "0.1.0"
__all__ = ["Cleaner", "Request", "Settings", "load_layers"]

_HOMES: Final = {
    "Cleaner": "cleaner.engine.cleaner",
    "Request": "policies.plan",
    "Settings": "cleaner.config.layers",
    "load_layers": "cleaner.config.reader",
}


def __getattr__(name: str) -> object:
    """Load a public name when it is first asked for, so that ``--help`` does not load the engine."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(name)
