"""What exports hold, in the store, where every machine reads it; jobs found by their account.

Exports that an earlier version made have files of their machines, which are not read any more: they are asked for again.
"""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("exports", sa.Column("blob", sa.String(length=40), nullable=False, server_default=""))
    op.add_column("exports", sa.Column("frames", sa.Integer(), nullable=False, server_default="0"))
    op.create_table(
        "export_frames",
        sa.Column("blob", sa.String(length=40), nullable=False),
        sa.Column("place", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("job_id", sa.String(length=40), nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("blob", "place", name=op.f("pk_export_frames")),
    )
    op.create_index(op.f("ix_jobs_account_id_created_at"), "jobs", ["account_id", "created_at"], unique=False)


def downgrade() -> None:
    op.drop_index(op.f("ix_jobs_account_id_created_at"), table_name="jobs")
    op.drop_table("export_frames")
    op.drop_column("exports", "frames")
    op.drop_column("exports", "blob")
