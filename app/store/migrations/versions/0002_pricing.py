"""Verdicts on prices, numbered invoices, and a market's account that may owe: it waits for owners' reversals."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_BEFORE, _AFTER = "balance_minor >= 0", "balance_minor >= 0 OR role = 'market'"


def upgrade() -> None:
    """Add both tables, number the orders there are, and let market accounts fall below zero."""
    op.create_table(
        "price_verdicts",
        sa.Column("chain_id", sa.String(length=64), nullable=False),
        sa.Column("verdict", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("good", sa.Text(), nullable=True),
        sa.Column("price_minor", sa.BigInteger(), nullable=True),
        sa.Column("stage", sa.Integer(), nullable=False),
        sa.Column("bundle_json", sa.Text(), nullable=False),
        sa.Column("cost_minor", sa.BigInteger(), nullable=True),
        sa.Column("at", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(["chain_id"], ["chains.id"], name=op.f("fk_price_verdicts_chain_id")),
        sa.PrimaryKeyConstraint("chain_id", name=op.f("pk_price_verdicts")),
    )
    invoices = op.create_table(
        "invoices",
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("order_id", sa.String(length=40), nullable=False),
        sa.ForeignKeyConstraint(["order_id"], ["orders.id"], name=op.f("fk_invoices_order_id")),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_invoices")),
        sa.UniqueConstraint("order_id", name=op.f("uq_invoices_order_id")),
    )
    connection = op.get_bind()
    placed = connection.execute(sa.text("SELECT id FROM orders ORDER BY leaf_index")).scalars().all()
    if placed:
        op.bulk_insert(invoices, [{"number": number, "order_id": order} for number, order in enumerate(placed, 1)])
    if connection.dialect.name == "sqlite":
        _recheck_sqlite(connection)
    else:
        op.drop_constraint(op.f("ck_accounts_balance_not_negative"), "accounts", type_="check")
        op.create_check_constraint(op.f("ck_accounts_balance_not_negative"), "accounts", _AFTER)


def _recheck_sqlite(connection: sa.Connection) -> None:
    """SQLite changes no constraint: make the table anew with its rows; references are looked at when all is back."""
    run = connection.exec_driver_sql
    old = run("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = 'accounts'").scalar_one()
    if old.count(_BEFORE) != 1:
        raise RuntimeError("accounts: expected one check of its balance, got another table")
    run("PRAGMA defer_foreign_keys = ON")
    run("CREATE TEMPORARY TABLE kept_accounts AS SELECT * FROM accounts")
    run("DELETE FROM accounts")
    run("DROP TABLE accounts")
    run(old.replace(_BEFORE, _AFTER))
    run("INSERT INTO accounts SELECT * FROM kept_accounts")
    run("DROP TABLE kept_accounts")
