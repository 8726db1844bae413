"""Exports that jobs have made: what was asked for, how it may be recognised, until when it is kept."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "exports",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("job_id", sa.String(length=40), nullable=False),
        sa.Column("account_id", sa.String(length=40), nullable=False),
        sa.Column("request_json", sa.Text(), nullable=False),
        sa.Column("log_size", sa.BigInteger(), nullable=False),
        sa.Column("etag", sa.String(length=64), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.Column("expires_at", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_exports_account_id")),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_exports_job_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_exports")),
        sa.UniqueConstraint("job_id", name=op.f("uq_exports_job_id")),
    )
    op.create_index(op.f("ix_exports_account_id"), "exports", ["account_id"], unique=False)


def downgrade() -> None:
    op.drop_index(op.f("ix_exports_account_id"), table_name="exports")
    op.drop_table("exports")
