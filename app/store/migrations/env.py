"""Alembic's entry: run on the connection that `app.store.database.migrate` hands over."""

from alembic import context

from app.store.location_schema import location_panels  # noqa: F401 - the location panels' tables join the metadata
from app.store.panel_schema import panels  # noqa: F401 - the panels' tables join the metadata
from app.store.schema import metadata

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=metadata, render_as_batch=True)
context.run_migrations()
