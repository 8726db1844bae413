"""One answer for ever: retries, races, two workers, crashes, a lost or lying cache, a damaged store."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import redis as redis_client
from sqlalchemy import select, text, update

from app.cache.answers import answer_key
from app.catalog.holdings import held_answers
from app.embedded import EmbeddedRedis
from app.engine.release import ReleaseEngine
from app.settings import Settings
from app.store.rights import rights_epoch
from app.store.schema import chains, draws, entitlements, orders, planned_tiers
from tests.conftest import HISTOGRAM, TOTAL, Fair, Person, open_fair, tiers
from tests.conftest import rows as people_rows


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The chains whose truth was read, in order: what must not grow after the first sale."""
    seen: list[str] = []
    compute = ReleaseEngine.compute

    def counting(self: ReleaseEngine, chain: Any, tier: Any) -> Any:
        seen.append(chain.id)
        return compute(self, chain, tier)

    monkeypatch.setattr(ReleaseEngine, "compute", counting)
    return seen


def test_a_retry_with_the_same_key_is_the_same_order(fair: Fair, drawn: list[str]) -> None:
    product = fair.product(fair.dataset())
    buyer = fair.person()
    quote = fair.quote(buyer, product, "1")
    first = fair.order(buyer, quote, "once")
    before = fair.stored()
    again = fair.order(buyer, quote, '"once"')
    assert again.json() == first.json() | {"replayed": True}
    assert fair.stored() == before
    assert len(drawn) == 1


def test_the_same_key_for_another_request_is_refused(fair: Fair) -> None:
    product = fair.product(fair.dataset())
    buyer = fair.person()
    fair.buy(buyer, product, "1", key="k")
    refused = fair.order(buyer, fair.quote(buyer, product, "0.5"), "k")
    assert refused.status_code == 422


def test_two_accounts_may_use_the_same_key(fair: Fair) -> None:
    product = fair.product(fair.dataset())
    first, second = fair.buy(fair.person(), product, "1", key="k"), fair.buy(fair.person(), product, "1", key="k")
    assert first["receipt"]["order"] != second["receipt"]["order"]


def test_a_worker_that_dies_between_the_commit_and_the_answer_leaves_one_order(
    fair: Fair, monkeypatch: pytest.MonkeyPatch, drawn: list[str]
) -> None:
    product = fair.product(fair.dataset())
    buyer = fair.person()
    quote = fair.quote(buyer, product, "1")
    put = fair.market.cache.put

    async def dies(*_: object) -> None:
        raise RuntimeError("killed")

    monkeypatch.setattr(fair.market.cache, "put", dies)
    assert fair.order(buyer, quote, "k").status_code == 500
    before = fair.stored()
    monkeypatch.setattr(fair.market.cache, "put", put)
    answered = fair.order(buyer, quote, "k").json()
    assert answered["replayed"] is True
    assert fair.stored() == before
    assert before["orders"] == 1
    assert len(drawn) == 1


@pytest.mark.parametrize("place", ["install", "charge", "log", "entitle"])
def test_a_sale_that_fails_at_any_point_before_its_commit_leaves_nothing_and_then_sells_the_same_digits(
    fair: Fair, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    from app.engine import sales
    from app.engine.sales import Desk

    product = fair.product(fair.dataset())
    buyer = fair.person()
    quote = fair.quote(buyer, product, "1")
    before = fair.stored()
    seen: list[tuple[int, ...]] = []
    install = ReleaseEngine.install

    def recording(self: ReleaseEngine, connection: Any, chain: Any, computed: Any, at: str) -> Any:
        seen.append(tuple(draw.commitment for draw in computed))
        result = install(self, connection, chain, computed, at)
        if place == "install" and len(seen) == 1:
            raise RuntimeError("killed")
        return result

    monkeypatch.setattr(ReleaseEngine, "install", recording)
    with monkeypatch.context() as patch:

        def dies(*_: object, **__: object) -> None:
            raise RuntimeError("killed")

        if place == "charge":
            patch.setattr(sales, "charge", dies)
        if place == "log":
            patch.setattr(sales, "log_sale", dies)
        if place == "entitle":
            patch.setattr(Desk, "_entitle", dies)
        assert fair.order(buyer, quote, "k").status_code == 500
    assert fair.stored() == before
    assert fair.order(buyer, quote, "k").status_code == 201
    assert seen[0] == seen[1], "a second attempt draws the same numbers"


def test_racing_buyers_of_one_first_sale_read_the_truth_once_and_get_one_answer(fair: Fair, drawn: list[str]) -> None:
    product = fair.product(fair.dataset())
    buyers = [fair.person() for _ in range(8)]
    quotes = [fair.quote(buyer, product, "1") for buyer in buyers]
    with ThreadPoolExecutor(8) as pool:
        sold = list(pool.map(lambda pair: fair.order(*pair).json(), zip(buyers, quotes, strict=True)))
    assert len({str(order["answer"]) for order in sold}) == 1
    assert sum(order["receipt"]["charge_nano"] for order in sold) == 10**9
    assert len(drawn) == 1


def test_one_key_sent_by_eight_connections_at_once_is_one_order(fair: Fair) -> None:
    product = fair.product(fair.dataset())
    buyer = fair.person()
    quote = fair.quote(buyer, product, "1")
    with ThreadPoolExecutor(8) as pool:
        sold = list(pool.map(lambda _: fair.order(buyer, quote, "k").json(), range(8)))
    assert len({order["receipt"]["order"] for order in sold}) == 1
    assert fair.stored()["orders"] == 1


@pytest.fixture
def two_workers(settings: Settings) -> Iterator[tuple[Fair, Fair]]:
    """Two workers with a store in common and nothing else."""
    first = open_fair(settings)
    second = open_fair(settings)
    try:
        yield next(first), next(second)
    finally:
        second.close()
        first.close()


def test_two_workers_that_race_for_a_first_sale_keep_one_draw(two_workers: tuple[Fair, Fair]) -> None:
    fair, other = two_workers
    product = fair.product(fair.dataset())
    buyers = [fair.person() for _ in range(6)]
    quotes = [fair.quote(buyer, product, "1") for buyer in buyers]
    barrier = threading.Barrier(6)

    def order(place: int) -> dict[str, Any]:
        barrier.wait()
        return dict((fair, other)[place % 2].order(buyers[place], quotes[place]).json())

    with ThreadPoolExecutor(6) as pool:
        sold = list(pool.map(order, range(6)))
    assert len({str(order["answer"]) for order in sold}) == 1
    assert sum(order["receipt"]["charge_nano"] for order in sold) == 10**9
    assert fair.stored()["draws"] == 4


def test_a_first_sale_on_two_workers_reads_the_truth_once(
    two_workers: tuple[Fair, Fair], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever waited for the turn sells what the other has drawn meanwhile."""
    product = two_workers[0].product(two_workers[0].dataset())
    buyers = [two_workers[0].person() for _ in range(2)]
    quotes = [two_workers[0].quote(buyer, product, "1") for buyer in buyers]
    compute, begun, both = ReleaseEngine.compute, list[str](), threading.Event()

    def slow(self: ReleaseEngine, chain: Any, tier: Any) -> Any:
        begun.append(chain.id)
        if len(begun) > 1:
            both.set()
        both.wait(2)  # as long as the other one needs to begin as well, were it let
        return compute(self, chain, tier)

    monkeypatch.setattr(ReleaseEngine, "compute", slow)
    with ThreadPoolExecutor(2) as pool:
        sold = list(pool.map(lambda place: two_workers[place].order(buyers[place], quotes[place]), range(2)))
    assert [order.status_code for order in sold] == [201, 201]
    assert begun == [product["chain"]]


def test_a_turn_is_one_worker_s_and_kinds_do_not_share(two_workers: tuple[Fair, Fair]) -> None:
    mine, theirs = (worker.market.turns for worker in two_workers)
    order: list[str] = []

    def wait() -> None:
        with theirs.held("draw", "x"):
            order.append("second")

    waiting = threading.Thread(target=wait)
    with mine.held("draw", "x") as first, theirs.held("draw", "x", wait=False) as second:
        assert (first, second) == (True, False)
        with theirs.held("job", "x", wait=False) as other:
            assert other
        waiting.start()
        waiting.join(0.2)
        order.append("first")
    waiting.join(120)
    assert order == ["first", "second"]
    with theirs.held("draw", "x", wait=False) as again:
        assert again


RESTS_ON = {
    "accounts": ("role", "pseudonym", "ceiling_nano", "suspended_at"),
    "api_keys": ("key_digest", "account_id", "revoked_at"),
    "entitlements": ("account_id", "chain_id", "law", "order_id"),
}


def test_a_write_to_whatever_a_right_rests_on_ends_every_copy(fair: Fair) -> None:
    """Past the service, too: the store itself counts."""
    fair.buy(fair.person(), fair.product(fair.dataset()), "1")
    writes = [f"UPDATE {table} SET {name} = {name}" for table, names in RESTS_ON.items() for name in names]
    for write in (*writes, "DELETE FROM entitlements", "DELETE FROM api_keys"):
        before = fair.market.database.read_now(rights_epoch)
        fair.market.database.submit(lambda connection, write=write: connection.execute(text(write))).result()
        assert fair.market.database.read_now(rights_epoch) > before, write


def test_two_purchases_that_read_the_same_remainder_from_two_workers_do_not_both_pass(
    two_workers: tuple[Fair, Fair],
) -> None:
    fair, other = two_workers
    dataset = fair.dataset(budget="3")
    products = [fair.product(dataset), fair.product(dataset, TOTAL)]
    buyers = [fair.person(), fair.person()]
    quotes = [fair.quote(buyer, product, "2") for buyer, product in zip(buyers, products, strict=True)]
    barrier = threading.Barrier(2)

    def order(place: int) -> int:
        barrier.wait()
        return int((fair, other)[place].order(buyers[place], quotes[place]).status_code)

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(order, range(2))) == [201, 409]
    assert fair.ledger(dataset)["spent"] == "2"


def test_a_revoked_key_stops_working_within_a_second_also_on_cache_hits(fair: Fair) -> None:
    from app.store.schema import api_keys

    product = fair.product(fair.dataset())
    buyer = fair.person()
    sold = fair.buy(buyer, product, "1")
    assert fair.answer(buyer, sold).status_code == 200
    revoke = api_keys.update().where(api_keys.c.account_id == buyer.account).values(revoked_at="2026-01-02")
    fair.market.database.submit(lambda connection: connection.execute(revoke)).result()
    known = fair.market.authenticator._known
    for digest, (_, caller) in list(known.items()):
        known[digest] = (0.0, caller)
    assert fair.answer(buyer, sold).status_code == 401


# --- Redis ---------------------------------------------------------------------------------------------------------


def test_a_wiped_redis_between_two_sales_causes_no_second_draw(
    cached_fair: Fair, redis: EmbeddedRedis, drawn: list[str]
) -> None:
    product = cached_fair.product(cached_fair.dataset())
    sold = cached_fair.buy(cached_fair.person(), product, "1")
    redis_client.Redis.from_url(redis.url).flushall()
    buyer = cached_fair.person()
    again = cached_fair.buy(buyer, product, "1")
    redis_client.Redis.from_url(redis.url).flushall()
    lower = cached_fair.buy(buyer, product, "0.5")
    assert again["answer"] == sold["answer"]
    assert cached_fair.answer(buyer, again).json() == sold["answer"]
    assert cached_fair.answer(buyer, lower).json() == lower["answer"]
    assert len(drawn) == 1


def test_a_stopped_redis_makes_answers_slower_and_changes_none(
    cached_fair: Fair, redis: EmbeddedRedis, drawn: list[str]
) -> None:
    product = cached_fair.product(cached_fair.dataset())
    buyer = cached_fair.person()
    sold = cached_fair.buy(buyer, product, "1")
    client = redis_client.Redis.from_url(redis.url)
    client.shutdown(nosave=True)
    assert cached_fair.answer(buyer, sold).json() == sold["answer"]
    assert cached_fair.buy(cached_fair.person(), product, "1")["answer"] == sold["answer"]
    assert "down" in cached_fair.client.get("/health/ready").json()["cache"]
    assert len(drawn) == 1


def test_a_forged_or_swapped_redis_value_is_refused_and_refilled(cached_fair: Fair, redis: EmbeddedRedis) -> None:
    product = cached_fair.product(cached_fair.dataset())
    buyer = cached_fair.person()
    high, low = cached_fair.buy(buyer, product, "2"), cached_fair.buy(buyer, product, "0.1")
    client = redis_client.Redis.from_url(redis.url)
    names = [answer_key(sold["answer"]["chain"], sold["answer"]["law"]) for sold in (high, low)]
    kept = [client.get(name) for name in names]
    assert all(kept), "an issued answer is cached"
    forged = kept[1][:32] + kept[1][32:].replace(b'"values"', b'"Values"')
    for bad in (kept[0], forged, b"", b"x" * 31, kept[1][:-1]):
        client.set(names[1], bad)
        cached_fair.forget()
        assert cached_fair.answer(buyer, low).json() == low["answer"]
        assert client.get(names[1]) == kept[1]
    client.delete(names[1])
    client.lpush(names[1], "a list where a string belongs")
    client.set(names[0], forged)
    cached_fair.forget()
    for sold, name, value in ((low, names[1], kept[1]), (high, names[0], kept[0])):
        assert cached_fair.answer(buyer, sold).json() == sold["answer"]
        assert client.get(name) == value, "one bad value switches the cache off for nobody"


def test_every_name_in_redis_begins_with_the_version_of_what_it_holds(cached_fair: Fair, redis: EmbeddedRedis) -> None:
    cached_fair.buy(cached_fair.person(), cached_fair.product(cached_fair.dataset()), "1")
    names = [name.decode() for name in redis_client.Redis.from_url(redis.url).keys("*")]
    assert {tuple(name.split(":")[:3]) for name in names} == {
        ("market", "v1", kind) for kind in ("answer", "head", "limit")
    }


def test_entitlement_is_checked_on_cache_hits(cached_fair: Fair) -> None:
    product = cached_fair.product(cached_fair.dataset())
    sold = cached_fair.buy(cached_fair.person(), product, "1")
    assert cached_fair.answer(cached_fair.person(), sold).status_code == 403


# --- secrecy -------------------------------------------------------------------------------------------------------


def unissued(fair: Fair, chain: str) -> dict[str, tuple[int, ...]]:
    """Every answer of a chain that nobody bought, in clear (only a test may look)."""
    from app.engine.state import chain_of_product
    from app.store.schema import products

    def read(connection: Any) -> dict[str, tuple[int, ...]]:
        product = connection.execute(select(products.c.id).where(products.c.chain_id == chain)).scalar_one()
        state, _ = chain_of_product(connection, fair.market.settings, product)
        sold = set(connection.execute(select(orders.c.law).where(orders.c.chain_id == chain)).scalars())
        return {
            tier.epsilon: fair.market.engine.unseal(state, tier, tier.sealed, tier.commitment).answer
            for tier in state.tiers
            if tier.law not in sold
        }

    return fair.market.database.read_now(read)


def forms(value: int) -> tuple[bytes, ...]:
    """Return how a number may stand in a file: its digits (without the sign), and as eight bytes."""
    return (
        str(abs(value)).encode(),
        value.to_bytes(8, "little", signed=True),
        value.to_bytes(8, "big", signed=True),
    )


def test_no_unissued_answer_and_no_truth_stands_in_clear_in_redis_store_or_log(
    cached_fair: Fair, redis: EmbeddedRedis, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    fair = cached_fair
    by_city = TOTAL | {"group_by": HISTOGRAM["group_by"], "groups_per_unit": 2}
    many = people_rows(people=400)  # sums of 4·10¹⁶ beside noise of some 6·10¹⁴: none is as small as 10¹²
    product = fair.product(fair.dataset(table=many), by_city, tiers=tiers(("2", 90), ("1", 30), ("0.5", 10)))
    buyer = fair.person()
    sold = fair.buy(buyer, product, "0.5")
    hidden = {value for answer in unissued(fair, product["chain"]).values() for value in answer}
    hidden.update(truth_of(fair, product["chain"]))
    hidden -= {int(value) for value in sold["answer"]["values"]}  # neighbouring tiers often show the same number
    assert len(hidden) >= 3
    assert all(abs(value) > 10**12 for value in hidden), "each is unmistakable wherever it turns up"
    client = redis_client.Redis.from_url(redis.url)
    heap = b"".join(name + (client.get(name) or b"") for name in client.keys("*"))  # a limit's key may have lapsed
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix not in (".duckdb", ".csv")]
    assert any(path.name == "market.db" for path in files)
    heap += b"".join(path.read_bytes() for path in files)
    heap += b"\n".join(fair.export()[0])
    captured = capfd.readouterr()
    heap += (captured.out + captured.err).encode()
    for value in hidden:
        for form in forms(value):
            assert form not in heap


def truth_of(fair: Fair, chain: str) -> tuple[int, ...]:
    from app.engine.state import chain_of_product
    from app.store.schema import products

    def read(connection: Any) -> Any:
        product = connection.execute(select(products.c.id).where(products.c.chain_id == chain)).scalar_one()
        return chain_of_product(connection, fair.market.settings, product)[0]

    return fair.market.files.truth(fair.market.database.read_now(read))


def test_an_answer_that_was_not_bought_is_not_given_even_where_it_exists(fair: Fair) -> None:
    product = fair.product(fair.dataset())
    buyer = fair.person()
    fair.buy(buyer, product, "0.5")
    for tier in product["tiers"]:
        path = f"/v1/answers/{product['chain']}/{tier['law']}"
        assert fair.client.get(path, headers=buyer.headers).status_code == (200 if tier["epsilon"] == "0.5" else 403)


def test_an_entitlement_that_was_written_past_the_desk_opens_nothing(fair: Fair) -> None:
    product = fair.product(fair.dataset())
    buyer = fair.person()
    sold = fair.buy(buyer, product, "0.5")
    top = product["tiers"][0]["law"]
    row = {"account_id": buyer.account, "chain_id": product["chain"], "law": top, "rank": 1}
    forged = entitlements.insert().values(**row, order_id=sold["receipt"]["order"])
    fair.market.database.submit(lambda connection: connection.execute(forged)).result()
    path = f"/v1/answers/{product['chain']}/{top}"
    assert fair.client.get(path, headers=buyer.headers).status_code == 403


def test_an_entitlement_opens_what_its_own_order_bought_for_its_own_account(fair: Fair) -> None:
    """Neither a row that cites another's order, or another tier's, nor one beyond what its chain has charged."""
    product = fair.product(fair.dataset())
    buyer, stranger = fair.person(), fair.person()
    sold = fair.buy(buyer, product, "1")
    chain, law = sold["answer"]["chain"], sold["answer"]["law"]
    lower = next(tier["law"] for tier in product["tiers"] if tier["epsilon"] == "0.5")
    row = {"chain_id": chain, "rank": 2, "order_id": sold["receipt"]["order"]}
    forged = [row | {"account_id": buyer.account, "law": lower}, row | {"account_id": stranger.account, "law": law}]
    fair.market.database.submit(lambda connection: connection.execute(entitlements.insert(), forged)).result()

    def held(who: Person) -> set[str]:
        found = fair.market.database.read_now(lambda connection: held_answers(connection, who.account, None))
        return {answer["law"] for answer in found}

    def status(who: Person, wanted: str) -> int:
        return int(fair.client.get(f"/v1/answers/{chain}/{wanted}", headers=who.headers).status_code)

    assert (status(buyer, law), status(buyer, lower), status(stranger, law)) == (200, 403, 403)
    assert (held(buyer), held(stranger)) == ({law}, set())
    less = update(chains).where(chains.c.id == chain).values(highest_nano=chains.c.highest_nano - 1)
    fair.market.database.submit(lambda connection: connection.execute(less)).result()
    fair.forget()
    assert (status(buyer, law), held(buyer)) == (403, set())


# --- a damaged store -----------------------------------------------------------------------------------------------


def test_a_swapped_or_damaged_stored_answer_is_not_served(fair: Fair) -> None:
    product = fair.product(fair.dataset())
    buyer = fair.person()
    sold = [fair.buy(buyer, product, epsilon) for epsilon in ("2", "1")]
    rows = fair.market.database.read_now(lambda connection: connection.execute(select(draws)).all())
    by_law = {row.law: row.sealed_answer for row in rows}
    whole = by_law[sold[0]["answer"]["law"]]
    for damage in (by_law[sold[1]["answer"]["law"]], b"", whole[:-1] + bytes([whole[-1] ^ 1])):
        change = update(draws).where(draws.c.law == sold[0]["answer"]["law"]).values(sealed_answer=damage)
        fair.market.database.submit(lambda connection, change=change: connection.execute(change)).result()
        answered = fair.answer(buyer, sold[0])
        assert answered.status_code == 500
        assert answered.json()["type"].endswith("integrity")


def test_a_stored_answer_that_opens_is_still_what_was_committed_to(fair: Fair) -> None:
    sold = fair.buy(buyer := fair.person(), fair.product(fair.dataset()), "1")
    change = update(draws).where(draws.c.law == sold["answer"]["law"]).values(commitment="0" * 64)
    fair.market.database.submit(lambda connection: connection.execute(change)).result()
    assert fair.answer(buyer, sold).status_code == 500


def test_an_altered_snapshot_is_never_read(fair: Fair) -> None:
    product = fair.product(fair.dataset())
    (file,) = fair.market.settings.snapshots.iterdir()
    file.chmod(0o600)
    raw = bytearray(file.read_bytes())
    raw[len(raw) // 2] ^= 1
    file.write_bytes(bytes(raw))
    buyer = fair.person()
    quote = fair.quote(buyer, product, "1")
    before = fair.stored()
    assert fair.order(buyer, quote).json()["type"].endswith("integrity")
    assert fair.stored() == before


def test_a_machine_without_the_snapshot_says_so_and_still_serves_what_was_sold(fair: Fair) -> None:
    dataset = fair.dataset()
    product, other = fair.product(dataset), fair.product(dataset, TOTAL)
    buyer = fair.person()
    sold = fair.buy(buyer, product, "1")
    (file,) = fair.market.settings.snapshots.iterdir()
    away = file.rename(file.with_suffix(".away"))
    quote, before = fair.quote(buyer, other, "1"), fair.stored()
    refused = fair.order(buyer, quote, "x")
    assert (refused.status_code, refused.json()["type"].rsplit("/", 1)[-1]) == (503, "snapshot-absent")
    assert fair.stored() == before
    assert fair.buy(fair.person(), product, "0.5")["receipt"]["charge_nano"] == 0
    fair.forget()
    assert fair.answer(buyer, sold).json() == sold["answer"]
    away.rename(file)
    assert fair.order(buyer, quote, "x").status_code == 201


def test_a_lost_noise_secret_freezes_new_draws_and_not_what_was_sold(fair: Fair) -> None:
    dataset = fair.dataset()
    product, other = fair.product(dataset), fair.product(dataset, TOTAL)
    buyer = fair.person()
    sold = fair.buy(buyer, product, "1")
    object.__setattr__(fair.market.keyring, "noise_roots", {})
    refused = fair.order(buyer, fair.quote(buyer, other, "1"), "x")
    assert refused.status_code == 503
    assert sold["answer"]["values"]


def test_the_store_itself_refuses_a_second_answer_a_negative_balance_and_an_overspent_budget(fair: Fair) -> None:
    from sqlalchemy.exc import IntegrityError

    from app.store.schema import accounts, datasets

    dataset = fair.dataset()
    fair.buy(fair.person(), fair.product(dataset), "1")
    rows = fair.market.database.read_now(lambda connection: connection.execute(select(draws)).all())
    second = dict(rows[0]._mapping) | {"place": 9, "key_hash": "0" * 64}
    attempts = [
        draws.insert().values(second),
        draws.insert().values(second | {"law": "0" * 64, "place": 0}),
        accounts.update().values(balance_minor=-1),
        datasets.update().values(spent_nano=datasets.c.budget_nano + 1),
    ]
    for attempt in attempts:
        done = fair.market.database.submit(lambda connection, attempt=attempt: connection.execute(attempt))
        with pytest.raises(IntegrityError):
            done.result()
    assert fair.market.database.read_now(lambda c: c.execute(select(planned_tiers.c.law)).all())


def test_a_restarted_market_serves_the_same_answers(settings: Settings) -> None:
    first = open_fair(settings)
    fair = next(first)
    product = fair.product(fair.dataset(), HISTOGRAM)
    buyer = fair.person()
    sold = fair.buy(buyer, product, "1")
    first.close()
    second = open_fair(settings)
    again = next(second)
    assert again.answer(buyer, sold).json() == sold["answer"]
    newcomer: Person = again.person()
    assert again.buy(newcomer, product, "1")["answer"] == sold["answer"]
    second.close()
