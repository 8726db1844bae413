"""Redis as a witness: it keeps the newest signed head, so that a store from a backup is seen to be one."""

import time
from hashlib import sha256
from typing import Any

import msgspec
import redis
import structlog
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from app.keyring import Keyring
from app.log.heads import TreeHead, public_key

__all__ = ["Witness"]

_PAUSE_SECONDS = 5.0
_WAIT_SECONDS = 1.0
_KEEP_NEWEST = """
local kept = redis.call('GET', KEYS[1])
local size = kept and tonumber(string.match(kept, '^(%d+) ')) or -1
if tonumber(ARGV[1]) > size then redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. ARGV[2]) end
return kept
"""
_log = structlog.get_logger("witness")


class Witness:
    """The newest head that Redis was shown. It is believed only under the market's signature; it may be absent."""

    def __init__(self, url: str, keyring: Keyring) -> None:
        self._redis: Any = redis.Redis.from_url(
            url, socket_timeout=_WAIT_SECONDS, socket_connect_timeout=_WAIT_SECONDS, retry=Retry(NoBackoff(), 0)
        )
        self._public = {number: public_key(text) for number, text in keyring.public_keys().items()}
        first = keyring.public_keys()[min(keyring.signing)]
        self._name = f"market:v1:head:{sha256(first.encode()).hexdigest()[:16]}"
        self._asleep_until = 0.0

    def newest(self) -> TreeHead | None:
        """Return the newest head that Redis knows, or None where it knows none or cannot be asked."""
        try:
            return self._signed(self._redis.get(self._name))
        except (RedisError, OSError):
            return None

    def note(self, head: TreeHead) -> bool:
        """Show Redis a head that is durable; return whether what it had before fits (it is older, or the same)."""
        if time.monotonic() < self._asleep_until:
            return True
        raw = msgspec.json.encode(head)
        try:
            before = self._redis.eval(_KEEP_NEWEST, 1, self._name, head.size, raw)
            kept = self._signed(before)
            if kept is None and before is not None:
                self._redis.set(self._name, str(head.size).encode() + b" " + raw)
                _log.warning("head in Redis refused: not signed by this market")
        except (RedisError, OSError):
            self._asleep_until = time.monotonic() + _PAUSE_SECONDS
            return True
        return kept is None or kept.size < head.size or kept.root == head.root

    def close(self) -> None:
        """Close the connection."""
        self._redis.close()

    def _signed(self, value: object) -> TreeHead | None:
        if not isinstance(value, bytes):
            return None
        try:
            head = msgspec.json.decode(value.partition(b" ")[2], type=TreeHead)
        except msgspec.MsgspecError:
            return None
        key = self._public.get(head.key)
        return head if key is not None and head.signed_by(key) else None
