"""Stops of panels in the log (A3, A4), of devices' and of places': nothing is sold or asked between stop and thaw."""

from collections.abc import Container

from app.audit.panels import needing
from app.log.location_leaves import LocationAnswerLeaf, LocationSaleLeaf
from app.log.panel_leaves import LateTierLeaf, PanelSaleLeaf, PanelStopLeaf, PanelThawLeaf
from tiers.audit.findings import Finding

__all__ = ["StopAudit"]


class StopAudit:
    """Which panels the log has stopped and not thawed so far.

    Args:       opened: the panels in the log, as far as it was read.
    """

    def __init__(self, *opened: Container[str]) -> None:
        self._opened = opened
        self._stopped: set[str] = set()

    def stop(self, leaf: PanelStopLeaf) -> list[Finding]:
        """Take a stop: of a panel that opened."""
        found, need = needing(leaf.index)
        opened = any(leaf.panel in each for each in self._opened)
        need(opened, "A4", "panel-of-stop", leaf.panel, "no earlier leaf opens it")
        self._stopped.add(leaf.panel)
        return found

    def thaw(self, leaf: PanelThawLeaf) -> list[Finding]:
        """Take a thaw: of a panel that was stopped."""
        found, need = needing(leaf.index)
        need(leaf.panel in self._stopped, "A4", "stopped-before-thaw", leaf.panel, "not stopped by an earlier leaf")
        self._stopped.discard(leaf.panel)
        return found

    def act(self, leaf: PanelSaleLeaf | LateTierLeaf | LocationAnswerLeaf | LocationSaleLeaf) -> list[Finding]:
        """Take what may not happen on a stopped panel: a sale, an answer, one more tier for sale."""
        found, need = needing(leaf.index)
        need(leaf.panel not in self._stopped, "A3", "panel-stopped", leaf.panel, "no thaw since it was stopped")
        return found
