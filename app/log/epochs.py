"""Keys come into force by a leaf: a key's number, its purpose, and the public half where there is one."""

from functools import partial

from sqlalchemy import Connection, select, update

from app.keyring import PURPOSES, Keyring, repepper
from app.log.journal import append
from app.log.leaves import EpochLeaf, decode
from app.store.schema import api_keys, leaves

__all__ = ["log_keys", "logged_numbers"]


def logged_numbers(connection: Connection) -> dict[str, int]:
    """Return the highest number of every purpose that the log knows; 0 before the first."""
    numbers = dict.fromkeys(PURPOSES, 0)
    wanted = select(leaves.c.body).where(leaves.c.kind == "key-epoch").order_by(leaves.c.log_index)
    for body in connection.execute(wanted).scalars():
        leaf = decode(body)
        assert isinstance(leaf, EpochLeaf)
        numbers[leaf.purpose] = max(numbers.get(leaf.purpose, 0), leaf.epoch)
    return numbers


def log_keys(connection: Connection, keyring: Keyring, at: str) -> list[tuple[str, int]]:
    """Put every key that the log does not know into it, and return which; the log's first leaves are such keys.

    A new signing key is announced by a leaf of its own under a head that the key before it signs. A new pepper goes
    over every stored API key in the same transaction. Number 1 of the other purposes needs no leaf.
    """
    known = logged_numbers(connection)
    if known["signing"] == 0:
        first = {"signing": min(keyring.signing), "noise": min(keyring.noise_roots)}
        makers = [partial(_leaf, at=at, keyring=keyring, purpose=p, number=n) for p, n in first.items()]
        append(connection, keyring, at, makers, signing=first["signing"])
        known |= first
    added = []
    for purpose, newest in keyring.numbers.items():
        for number in range(max(known[purpose], 1) + 1, newest + 1):
            make = partial(_leaf, at=at, keyring=keyring, purpose=purpose, number=number)
            append(connection, keyring, at, [make], signing=number - 1 if purpose == "signing" else None)
            if purpose == "pepper":
                _repepper_all(connection, keyring.peppers[number])
            added.append((purpose, number))
    return added


def _leaf(index: int, *, at: str, keyring: Keyring, purpose: str, number: int) -> EpochLeaf:
    public = keyring.public_keys()[number] if purpose == "signing" else None
    return EpochLeaf(index=index, at=at, purpose=purpose, epoch=number, public_key=public)


def _repepper_all(connection: Connection, pepper: bytes) -> None:
    for digest in connection.execute(select(api_keys.c.key_digest)).scalars().all():
        change = update(api_keys).where(api_keys.c.key_digest == digest)
        connection.execute(change.values(key_digest=repepper(digest, pepper)))
