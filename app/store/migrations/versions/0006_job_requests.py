"""Jobs that were asked for with words of their own: whoever takes one over reads them."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("request_json", sa.Text(), nullable=False, server_default="{}"))
