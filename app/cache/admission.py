"""The limits of this market, by what they count: callers' reads and acts, visitors, bad keys."""

from app.cache.limits import Limiter, LocalBuckets, RedisBuckets
from app.keyring import Keyring
from app.settings import Settings

__all__ = ["Admission"]


class Admission:
    """Admits a request or raises TooManyRequestsError. Addresses are kept as keyed digests only."""

    def __init__(self, settings: Settings, keyring: Keyring) -> None:
        local = LocalBuckets(settings.workers)
        self._shared = RedisBuckets(settings.redis_url, local) if settings.redis_url else None
        self._limiter = Limiter(self._shared or local)
        self._limits, self._keyring = settings.limits, keyring

    def admits_read(self, account: str) -> bool:
        """Spend a token for a caller's GET if this process holds one: without it, `read` must be asked."""
        return self._limiter.spend(f"read:{account}", self._limits.reads)

    async def read(self, account: str) -> None:
        """Admit a caller's GET."""
        if not self.admits_read(account):
            await self._limiter.admit(f"read:{account}", self._limits.reads, "reads")

    async def act(self, account: str) -> None:
        """Admit a caller's POST or DELETE."""
        await self._limiter.admit(f"act:{account}", self._limits.acts, "acts")

    async def visitor(self, address: str) -> None:
        """Admit a request to a public page."""
        await self._limiter.admit(f"visit:{self._pseudonym(address)}", self._limits.reads, "visits")

    async def failure(self, address: str) -> None:
        """Count a bad key against the address that sent it."""
        await self._limiter.admit(f"fail:{self._pseudonym(address)}", self._limits.failures, "bad keys")

    async def close(self) -> None:
        """Let go of connections."""
        await self._limiter.close()
        if self._shared is not None:
            await self._shared.close()

    def _pseudonym(self, address: str) -> str:
        return self._keyring.mac("address", address.encode("utf-8", "replace")).hex()[:32]
