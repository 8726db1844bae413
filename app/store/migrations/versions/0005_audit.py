"""Kept audit reports, and chains that an audit has frozen."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "audit_reports",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("at", sa.String(length=32), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("verdict", sa.String(length=16), nullable=False),
        sa.Column("report_json", sa.Text(), nullable=False),
        sa.Column("watch_json", sa.Text(), nullable=False),
        sa.Column("leaf_index", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit_reports")),
        sa.UniqueConstraint("leaf_index", name=op.f("uq_audit_reports_leaf_index")),
    )
    op.create_table(
        "frozen_chains",
        sa.Column("chain_id", sa.String(length=64), nullable=False),
        sa.Column("finding", sa.String(length=80), nullable=False),
        sa.Column("found_by", sa.String(length=40), nullable=False),
        sa.Column("at", sa.String(length=32), nullable=False),
        sa.Column("leaf_index", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["chain_id"], ["chains.id"], name=op.f("fk_frozen_chains_chain_id")),
        sa.PrimaryKeyConstraint("chain_id", name=op.f("pk_frozen_chains")),
    )


def downgrade() -> None:
    op.drop_table("frozen_chains")
    op.drop_table("audit_reports")
