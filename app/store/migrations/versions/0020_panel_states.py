"""Panels of either kind are on sale, or off it."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for table in ("panels", "location_panels"):
        op.add_column(table, sa.Column("state", sa.String(length=12), nullable=False, server_default="live"))
