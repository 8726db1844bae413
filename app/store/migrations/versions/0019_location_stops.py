"""A location panel's stop is a row as a panel's is, and a leaf; stops from before are logged when they end."""

from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("panel_stops", recreate="auto") as changed:  # a stop is of a panel of either kind
        changed.drop_constraint(op.f("fk_panel_stops_panel_id"), type_="foreignkey")
    op.execute(
        "INSERT INTO panel_stops (panel_id, finding, found_by) "
        "SELECT id, substr(stopped, 1, 80), 'an audit' FROM location_panels WHERE stopped IS NOT NULL"
    )
    op.drop_column("location_panels", "stopped")
