"""Response bodies: frozen structs; none holds a row, and only an order and an answer hold an answer."""

from app.thresholds.shapes import ThresholdLookView, ThresholdOrderView, ThresholdQuoteView, ThresholdStepView
from app.views.accounts import AccountView, HolderView, KeyView, PostingView
from app.views.bundles import BundleOrderView, BundlePartView, BundleView
from app.views.datasets import BudgetState, ColumnView, DatasetView, DictionaryView
from app.views.panels import (
    PanelDeliveryView,
    PanelPlacedView,
    PanelQuoteView,
    PanelReadingView,
    PanelRoundView,
    PanelTierView,
    PanelView,
)
from app.views.problems import ProblemView
from app.views.products import MeanBarView, ProductView, TierView
from app.views.trade import AnswerView, EntitlementView, OrderView, PlacedView, QuoteLineView

__all__ = [
    "AccountView",
    "AnswerView",
    "BudgetState",
    "BundleOrderView",
    "BundlePartView",
    "BundleView",
    "ColumnView",
    "DatasetView",
    "DictionaryView",
    "EntitlementView",
    "HolderView",
    "KeyView",
    "MeanBarView",
    "OrderView",
    "PanelDeliveryView",
    "PanelPlacedView",
    "PanelQuoteView",
    "PanelReadingView",
    "PanelRoundView",
    "PanelTierView",
    "PanelView",
    "PlacedView",
    "PostingView",
    "ProblemView",
    "ProductView",
    "QuoteLineView",
    "ThresholdLookView",
    "ThresholdOrderView",
    "ThresholdQuoteView",
    "ThresholdStepView",
    "TierView",
]
