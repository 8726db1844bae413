"""A panel's stop is a leaf, and so is its thaw; stops from before are logged when they end. Panels may gain tiers."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "panel_stops",
        sa.Column("panel_id", sa.String(length=40), nullable=False),
        sa.Column("finding", sa.String(length=80), nullable=False),
        sa.Column("found_by", sa.String(length=40), nullable=False),
        sa.Column("at", sa.String(length=32), nullable=True),
        sa.Column("leaf_index", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["panel_id"], ["panels.id"], name=op.f("fk_panel_stops_panel_id")),
        sa.PrimaryKeyConstraint("panel_id", name=op.f("pk_panel_stops")),
    )
    op.execute(
        "INSERT INTO panel_stops (panel_id, finding, found_by) "
        "SELECT id, substr(stopped, 1, 80), 'an audit' FROM panels WHERE stopped IS NOT NULL"
    )
    op.drop_column("panels", "stopped")
    op.add_column("panels", sa.Column("late_tiers", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("panel_tiers", sa.Column("late_record", sa.Text(), nullable=True))
    op.add_column("panel_tiers", sa.Column("leaf_index", sa.BigInteger(), nullable=True))
