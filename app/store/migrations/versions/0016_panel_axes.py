"""Panels over grids: their axes."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("panels", sa.Column("axes_json", sa.Text(), nullable=True))
