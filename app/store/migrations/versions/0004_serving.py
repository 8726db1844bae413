"""One number that rises with each right that is taken away, whoever takes it; and records on their way to redo files."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

WATCHED = {
    "accounts": "UPDATE OF role, pseudonym, ceiling_nano, suspended_at",
    "api_keys": "UPDATE OF key_digest, account_id, revoked_at",
    "entitlements": "UPDATE OF account_id, chain_id, law, order_id",
}
RISE = (
    "INSERT INTO rights_epoch (id, epoch) VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET epoch = rights_epoch.epoch + 1"
)


def upgrade() -> None:
    op.create_table(
        "rights_epoch",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_rights_epoch_one_row")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_rights_epoch")),
    )
    op.create_table(
        "redo_records",
        sa.Column("n", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("record", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("n", name=op.f("pk_redo_records")),
    )
    op.add_column("jobs", sa.Column("attempts", sa.Integer(), nullable=False, server_default="0"))
    postgres = op.get_bind().dialect.name == "postgresql"
    if postgres:
        op.execute(
            f"CREATE FUNCTION rights_taken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {RISE}; RETURN NULL; END $$"
        )
    then = "EXECUTE FUNCTION rights_taken()" if postgres else f"BEGIN {RISE}; END"
    for table, change in WATCHED.items():
        op.execute(f"CREATE TRIGGER {table}_changed AFTER {change} ON {table} FOR EACH ROW {then}")
        op.execute(f"CREATE TRIGGER {table}_deleted AFTER DELETE ON {table} FOR EACH ROW {then}")
