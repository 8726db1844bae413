"""The market of one process: its parts, put together once, and the few acts that span several of them."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog
from sqlalchemy import Connection

from app.audit.freezing import freeze
from app.audit.gate import Gate
from app.audit.reports import AUDIT as LOG_AUDIT
from app.audit.reports import log_audit
from app.auth.accounts import Caller, active_caller, find_caller
from app.auth.guard import Authenticator
from app.cache.admission import Admission
from app.cache.answers import AnswerCache, NoCache, RedisCache
from app.cache.issued import IssuedAnswers
from app.catalog.auditing import AUDIT, price_audit
from app.catalog.holdings import entitled_product
from app.catalog.readings import read_off, reading_of
from app.clock import Clock, time_text, utc_now
from app.engine.release import ComputedDraw, ReleaseEngine, Unsealed
from app.engine.sales import ChainUndrawnError, Desk, PlacedOrder, ReleaseRefusedError
from app.engine.snapshots import SnapshotFiles
from app.engine.state import ChainState, Tier, answer_document, chain_of_product, etag_of
from app.errors import (
    AppError,
    ConflictError,
    NotFoundError,
    UnauthorizedError,
)
from app.exports.work import EXPORT, export_job
from app.formats.kept import Renderings
from app.formats.readings import ReadOff
from app.founding import found_market, recorder_of
from app.jobs.orders import LOCATION_ORDER, ORDER, OrderJob, order_job
from app.jobs.runner import Jobs, Kinds, Task
from app.settings import Settings
from app.store.database import Database, open_engine
from app.store.exclusive import Turns
from app.store.rights import Rights, rights_epoch
from tiers.audit.findings import Finding

__all__ = ["Alert", "Answer", "Market"]

Alert = Callable[[str], None]
"""Told the check and the rule of a finding: a closed set, fit for a metric's label."""

_ATTEMPTS = 8
_DRAWERS = 8
_log = structlog.get_logger("audit")


@dataclass(frozen=True, slots=True)
class Answer:
    """One tier's answer as it is sent: the body, and the strong ETag of that representation."""

    body: bytes
    etag: str


class Market:
    """What handlers hold: the store, the sales desk, the engine, the cache, the clock."""

    def __init__(
        self,
        settings: Settings,
        *,
        clock: Clock = utc_now,
        on_query: Callable[[], None] = lambda: None,
        alert: Alert = lambda _: None,
    ) -> None:
        self.settings, self.clock, self._alert = settings, clock, alert
        self.keyring = found_market(settings)
        self.rights, self.issued = Rights(), IssuedAnswers()
        engine = open_engine(settings.database_url)
        self.database = Database(engine, recorder_of(settings, self.keyring), self.rights)
        self.turns = Turns(engine)
        self.files = SnapshotFiles(self.keyring, settings.sources)
        self.engine = ReleaseEngine(self.keyring, self.files)
        self.desk = Desk(settings, self.keyring, self.engine, Gate())
        self.authenticator = Authenticator(self.database, self.keyring)
        self.cache: AnswerCache = RedisCache(settings.redis_url, self.keyring) if settings.redis_url else NoCache()
        self.limits = Admission(settings, self.keyring)
        self.renderings = Renderings()
        self.jobs = Jobs(self.database, clock, self.turns, self._kinds(), waiting=(ORDER, LOCATION_ORDER))
        self._on_query = on_query
        self._drawers = ThreadPoolExecutor(_DRAWERS, thread_name_prefix="drawer")

    def _kinds(self) -> Kinds:
        """The work of each kind of job, whoever does it."""
        return {
            AUDIT: lambda database, task: price_audit(database, time_text(self.clock()), task),
            LOG_AUDIT: lambda _, task: log_audit(self, task),
            ORDER: order_job(self._place_now),
            EXPORT: lambda _, task: export_job(self, task),
            LOCATION_ORDER: lambda _, task: self._ask_people(task),
        }

    def _ask_people(self, task: Task) -> Mapping[str, Any]:
        from app.locations.order_jobs import location_order_job  # which holds the market

        return location_order_job(self, task)

    async def close(self) -> None:
        """Finish writes and let everything go."""
        await self.jobs.close()
        await asyncio.to_thread(self._drawers.shutdown)
        await self.rights.close()
        await self.cache.close()
        await self.limits.close()
        await asyncio.to_thread(self.database.close)
        self.files.close()

    async def standing(self) -> str:
        """Return how the store stands: current, or behind or forked, where nothing is sold until it is restored."""
        if self.database.standing != "current":
            with suppress(AppError):
                await self.database.write(lambda _: None)
        return self.database.standing

    async def order(
        self, caller: Caller, quote: str, key: str, licence: str | None = None
    ) -> tuple[PlacedOrder, Answer, Unsealed]:
        """Place an order and return it with its answer; the chain is drawn first where nobody has drawn it.

        The cache is filled only after the commit, and only with the tier that was sold.
        """
        now = self.clock()
        desk = self.desk
        try:
            placed = await self._refusing(
                self.database.write(lambda connection: desk.order(connection, caller, quote, key, now, licence=licence))
            )
        except ChainUndrawnError as undrawn:
            drawn = self._draw_and_order(undrawn.chain.id, caller, quote, key, licence)
            placed = await self._refusing(drawn)
        return placed, *(await self.reveal(placed))

    async def order_or_job(self, caller: Caller, quote: str, key: str, licence: str | None) -> PlacedOrder | str:
        """Place an order that needs no draw, or be refused; else return the job that draws and places it."""
        wanted = OrderJob(quote=quote, key=key, licence=licence)
        try:
            return await self._refusing(self.database.write(self._sale(caller, wanted)))
        except ChainUndrawnError:
            return await self.jobs.start(caller.id, ORDER, wanted.text())

    def _sale(self, caller: Caller, wanted: OrderJob) -> Callable[[Connection], PlacedOrder]:
        now, desk = self.clock(), self.desk
        return lambda connection: desk.order(connection, caller, wanted.quote, wanted.key, now, licence=wanted.licence)

    def _place_now(self, caller: Caller, wanted: OrderJob) -> PlacedOrder:
        """Place an order in the thread of its job; what the gate refuses freezes its chain here, too."""
        try:
            try:
                return self.database.submit(self._sale(caller, wanted)).result()
            except ChainUndrawnError as undrawn:
                return self._draw_in_turn(undrawn.chain.id, caller, wanted.quote, wanted.key, wanted.licence)
        except ReleaseRefusedError as refused:
            self.database.submit(self._freezing(refused)).result()
            raise

    async def reveal(self, placed: PlacedOrder) -> tuple[Answer, Unsealed]:
        """Return the answer of an order that has been committed, and put it into the cache."""
        unsealed = self.engine.unseal(placed.chain, placed.tier, placed.sealed, placed.commitment)
        body = answer_document(placed.chain, placed.tier, unsealed.answer)
        await self.cache.put(placed.chain.id, placed.tier.law, body)
        return Answer(body, etag_of(placed.chain.id, placed.tier.law, body)), unsealed

    def alarm(
        self, findings: Iterable[Finding], stopped: Collection[str], found_by: str, panels: Collection[str] = ()
    ) -> None:
        """Tell the log and the metrics of findings, and of the chains and panels that are not sold because of them."""
        for finding in findings:
            self._alert(f"{finding.check} {finding.rule}")
            chain = None if finding.chain is None else finding.chain[:16]
            _log.error("audit finding", check=finding.check, rule=finding.rule, chain=chain, found_by=found_by)
        for chain in stopped:
            _log.error("chain frozen", chain=chain[:16], found_by=found_by)
        for panel in panels:
            _log.error("panel stopped", panel=panel, found_by=found_by)

    async def _refusing(self, sale: Awaitable[PlacedOrder]) -> PlacedOrder:
        """Freeze the chain of a release that the gate refuses: the sale itself has left nothing behind."""
        try:
            return await sale
        except ReleaseRefusedError as refused:
            await self.database.write(self._freezing(refused))
            raise

    def _freezing(self, refused: ReleaseRefusedError) -> Callable[[Connection], None]:
        at, found = time_text(self.clock()), refused.found

        def work(connection: Connection) -> None:
            self.alarm(found, freeze(connection, self.keyring, found, "gate", at), "gate")

        return work

    async def reading(self, caller: Caller, product: str, law: str) -> ReadOff:
        """Return what is read off the answers that a caller holds of one tier of a product.

        Raises:     NotFoundError: no such product or tier. NotEntitledError: an answer that the caller does not hold.
        """
        found = await self.database.read(lambda connection: reading_of(connection, product, law))
        held = [await self.answer(caller, chain, tier.identity) for chain, tier in found.parts]
        return read_off(found, [each.body for each in held], {"product": product, "law": law})

    async def _draw_and_order(
        self, chain: str, caller: Caller, quote: str, key: str, licence: str | None
    ) -> PlacedOrder:
        """Draw what is due and sell it, one process at a time: who waited sells what another has drawn meanwhile."""
        work = partial(self._draw_in_turn, chain, caller, quote, key, licence)
        return await self.turns.in_line("draw", chain, work, self._drawers)

    def _draw_in_turn(self, chain: str, caller: Caller, quote: str, key: str, licence: str | None) -> PlacedOrder:
        """Where others drew in between, so that something else is due, draw again; each chain of the sale in turn.

        Who waited for the turn orders as the account may order by then.
        """
        computed: dict[str, tuple[ComputedDraw, ...]] = {}
        drawn: Counter[str] = Counter()
        with self.turns.held("draw", chain):
            caller = self.database.read_now(lambda connection: active_caller(connection, caller.id))
            while max(drawn.values(), default=0) < _ATTEMPTS:
                work = partial(
                    self.desk.order,
                    caller=caller,
                    quote_id=quote,
                    key=key,
                    now=self.clock(),
                    computed=computed,
                    licence=licence,
                )
                try:
                    return self.database.submit(work).result()
                except ChainUndrawnError as undrawn:
                    self._on_query()
                    drawn[undrawn.chain.id] += 1
                    computed[undrawn.chain.id] = self.engine.compute(undrawn.chain, undrawn.tier)
        raise ConflictError("tier: expected a chain that others leave alone for a moment, got one that keeps changing")

    async def answer(self, caller: Caller, chain: str, law: str) -> Answer:
        """Return an issued answer to somebody entitled to it: the entitlement is checked on every path, hits included.

        Raises:     NotEntitledError: the caller holds no order for this tier (whether it exists or not).
        """
        product = await self.database.read(lambda connection: entitled_product(connection, caller.id, chain, law))
        body = await self.cache.get(chain, law)
        if body is None:
            body = await self._stored_body(product, law)
            await self.cache.put(chain, law, body)
        return Answer(body, etag_of(chain, law, body))

    async def rights_to(self, digest: str, chain: str, law: str) -> tuple[int, Caller]:
        """Return who has the API key of this digest, and the epoch at which key and entitlement were read together.

        Raises:     UnauthorizedError, AccountSuspendedError, NotEntitledError: the right is gone.
        """
        asked = self.rights.clock()

        def read(connection: Connection) -> tuple[int, Caller]:
            caller = find_caller(connection, digest)
            if caller is None:
                raise UnauthorizedError("Authorization: expected a live API key, got another")
            entitled_product(connection, caller.id, chain, law)
            return rights_epoch(connection), caller

        epoch, caller = await self.database.read(read)
        self.rights.confirm(epoch, asked)
        return epoch, caller

    async def _stored_body(self, product: str, law: str) -> bytes:
        return self._document(*await self.database.read(partial(self._tier, product=product, law=law)))

    def stored_answer(self, product: str, chain: str, law: str) -> bytes:
        """Return an issued answer's document from the store, in the caller's thread; who may have it is decided before.

        Raises:     NotFoundError: the product's chain has no such tier. IntegrityError: it is not what was committed.
        """
        state, tier = self.database.read_now(partial(self._tier, product=product, law=law))
        if state.id != chain:
            raise NotFoundError("answer: expected one of the product's chain, got another")
        return self._document(state, tier)

    def _tier(self, connection: Connection, product: str, law: str) -> tuple[ChainState, Tier]:
        state, _ = chain_of_product(connection, self.settings, product)
        return state, state.tier(law)

    def _document(self, state: ChainState, tier: Tier) -> bytes:
        assert tier.sealed is not None
        assert tier.commitment is not None
        unsealed = self.engine.unseal(state, tier, tier.sealed, tier.commitment)
        return answer_document(state, tier, unsealed.answer)
