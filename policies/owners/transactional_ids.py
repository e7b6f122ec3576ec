"""The transactional ids of a partition of ``__transaction_state``.

Source: Kafka ``TransactionState``, ``TransactionStateManager.shouldExpire``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from policies.owners.holdings import KeyHolding, Latest, Owner, OwnerState, Terms

_STATES: Final = {
    0: OwnerState.UNUSED,
    1: OwnerState.ONGOING,
    2: OwnerState.PREPARE_COMMIT,
    3: OwnerState.PREPARE_ABORT,
    4: OwnerState.COMMITTED,
    5: OwnerState.ABORTED,
    6: OwnerState.DEAD,
    7: OwnerState.FENCED,
}
_MAY_EXPIRE: Final = frozenset({OwnerState.UNUSED, OwnerState.COMMITTED, OwnerState.ABORTED})


def transactional_ids_of(keys: Iterable[KeyHolding], terms: Terms) -> list[Owner]:
    """Return the owners of some keys, each of which is one transactional id, the largest first."""
    owners = [_owner(key, terms) for key in keys]
    return sorted(owners, key=lambda owner: (-owner.holding.size_bytes, owner.name))


def _owner(key: KeyHolding, terms: Terms) -> Owner:
    name = key.key["transactionalId"]
    if key.latest is not Latest.VALUE:
        last_ms = key.holding.last_ms if key.holding.last_ms >= 0 else None
        return Owner(name, OwnerState.DEAD, "", None, last_ms, key.holding)
    if key.value is None:
        return Owner(name, OwnerState.UNKNOWN, "", None, None, key.holding)
    state = _STATES.get(key.value["transactionStatus"], OwnerState.UNKNOWN)
    last_ms = key.value["transactionLastUpdateTimestampMs"]
    is_expired = state in _MAY_EXPIRE and last_ms <= terms.now_ms - terms.transactional_id_expiration_ms
    return Owner(name, state, "", None, last_ms if last_ms >= 0 else None, key.holding, int(is_expired))
