"""Request bodies: frozen, closed to unknown fields, every text and number bounded."""

from app.thresholds.shapes import ThresholdRequest
from app.wire.accounts import AccountRequest, CeilingRequest, DepositRequest, KeyRequest, SuspensionRequest
from app.wire.analysts import DashboardRequest, QuestionRequest, TileRequest
from app.wire.audits import ThawRequest
from app.wire.bundles import BundlePartRequest, BundlePriceRequest, BundleRequest
from app.wire.datasets import ContractRequest, DatasetRequest, ReserveRequest, SnapshotRequest, WindowRequest
from app.wire.panels import PanelQuoteRequest, PanelReadingRequest, PanelReportsRequest, PanelRequest
from app.wire.prices import DemandRequest, SimulationRequest, SubscriptionRequest
from app.wire.products import (
    BookRequest,
    ProductRequest,
    RehearsalRequest,
    StateRequest,
    TierRequest,
    WithdrawalRequest,
)
from app.wire.trade import CreditRequest, ExportRequest, OrderRequest, PayoutRequest, QuoteRequest

__all__ = [
    "AccountRequest",
    "BookRequest",
    "BundlePartRequest",
    "BundlePriceRequest",
    "BundleRequest",
    "CeilingRequest",
    "ContractRequest",
    "CreditRequest",
    "DashboardRequest",
    "DatasetRequest",
    "DemandRequest",
    "DepositRequest",
    "ExportRequest",
    "KeyRequest",
    "OrderRequest",
    "PanelQuoteRequest",
    "PanelReadingRequest",
    "PanelReportsRequest",
    "PanelRequest",
    "PayoutRequest",
    "ProductRequest",
    "QuestionRequest",
    "QuoteRequest",
    "RehearsalRequest",
    "ReserveRequest",
    "SimulationRequest",
    "SnapshotRequest",
    "StateRequest",
    "SubscriptionRequest",
    "SuspensionRequest",
    "ThawRequest",
    "ThresholdRequest",
    "TierRequest",
    "TileRequest",
    "WindowRequest",
    "WithdrawalRequest",
]
