"""Request bodies: frozen, closed to unknown fields, every text and number bounded."""

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from app.exports.requests import Exported
from app.panels.intake import ReportRow
from app.panels.readings import Reading
from app.queries.model import Query
from app.queries.schema import GROUPS_LIMIT, ROWS_LIMIT, Column, Name
from app.thresholds.shapes import ThresholdRequest

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

Identity: TypeAlias = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[0-9a-z_]+\Z")]
Decimal: TypeAlias = Annotated[str, Meta(min_length=1, max_length=30)]
Currency: TypeAlias = Annotated[str, Meta(pattern=r"^[A-Z]{3}\Z")]
Line: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+\Z")]
Paragraph: TypeAlias = Annotated[str, Meta(max_length=4_000, pattern=r"^[^\x00]*\Z")]
Contract: TypeAlias = Annotated[
    dict[Identity, Annotated[int, Meta(ge=0, le=10**9)]], Meta(min_length=1, max_length=1_000)
]
Family: TypeAlias = Literal["auto", "tsg", "msdlap", "skellam", "lattice-gaussian", "discrete-gaussian"]
Minor: TypeAlias = Annotated[int, Meta(ge=0, le=10**12)]  # in millionths, owners' shares still fit 64 bits


class _Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A body that names what it knows and refuses the rest."""


class AccountRequest(_Request, frozen=True, kw_only=True):
    """A new account. `ceiling` is an analyst's highest ε; other roles have none."""

    role: Literal["owner", "buyer", "analyst", "auditor", "operator"]
    name: Line
    currency: Currency = "EUR"
    ceiling: Decimal | None = None


class DepositRequest(_Request, frozen=True, kw_only=True):
    """Money into an account; `reference` makes it one deposit, however often it is sent."""

    amount_minor: Annotated[int, Meta(ge=1, le=2**53 - 1)]
    currency: Currency
    reference: Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[0-9A-Za-z._-]+\Z")]


class ReserveRequest(_Request, frozen=True, kw_only=True):
    """The range of list prices per 1.0 of ε, in minor units: what budget must at least bring rises from low to high.

    `compensation_minor`: what owners must receive for every 1.0 of ε that is used, after the fee; it lifts low.
    """

    low_minor: Annotated[int, Meta(ge=1, le=2**53 - 1)]
    high_minor: Annotated[int, Meta(ge=1, le=2**53 - 1)]
    compensation_minor: Annotated[int, Meta(ge=0, le=10**12)] = 0


class WindowRequest(_Request, frozen=True, kw_only=True):
    """At most `budget` of ε in any `days` days: a pace, which gives nothing back."""

    days: Annotated[int, Meta(ge=1, le=3_650)]
    budget: Decimal


class SnapshotRequest(_Request, frozen=True, kw_only=True):
    """A dataset's next file, of the same columns."""

    file: Annotated[str, Meta(min_length=1, max_length=120, pattern=r"^[0-9A-Za-z][0-9A-Za-z._-]*\Z")]
    null_text: Annotated[str, Meta(max_length=16, pattern=r"^[^\x00-\x1f\x7f]*\Z")] = ""


class StateRequest(_Request, frozen=True, kw_only=True):
    """Where a product goes: on sale or off it."""

    state: Literal["live", "retired"]


class BookRequest(_Request, frozen=True, kw_only=True):
    """New prices of a product's chain, one for each of its tiers, most accurate first."""

    currency: Currency
    prices_minor: Annotated[tuple[Minor, ...], Meta(min_length=1, max_length=64)]


class QuestionRequest(_Request, frozen=True, kw_only=True):
    """An analyst's own question on a dataset that allows them."""

    dataset: Identity
    title: Line = "ad-hoc question"
    query: Query


class TileRequest(_Request, frozen=True, kw_only=True):
    """One number or chart of a dashboard: a product at a tier, and how it is shown."""

    product: Identity
    epsilon: Decimal
    title: Line
    display: Literal["number", "bars", "table"] = "bars"


class DashboardRequest(_Request, frozen=True, kw_only=True):
    """A dashboard, kept as data."""

    name: Line
    tiles: Annotated[tuple[TileRequest, ...], Meta(min_length=1, max_length=50)]


class ContractRequest(_Request, frozen=True, kw_only=True):
    """Contracted rates by owner's account, for later sales."""

    owners: Contract


class DatasetRequest(_Request, frozen=True, kw_only=True):
    """A dataset: its file in the data folder, its columns, its unit, ceilings of a unit's contribution, its budget.

    `budget` is an ε (pure), a ρ (zcdp), or the ε of a promise (approx, with `budget_delta`), which is kept as the ρ
    that it allows; quota, window and charges are in the units of the ledger: ε if it is pure, else ρ. `keep_in` names a
    PostgreSQL server of the operator's that is to keep the rows.
    """

    name: Annotated[str, Meta(min_length=1, max_length=80, pattern=r"^[a-z0-9][a-z0-9-]*\Z")]
    title: Line
    description: Paragraph = ""
    notice: Paragraph = ""
    file: Annotated[str, Meta(min_length=1, max_length=120, pattern=r"^[0-9A-Za-z][0-9A-Za-z._-]*\Z")]
    null_text: Annotated[str, Meta(max_length=16, pattern=r"^[^\x00-\x1f\x7f]*\Z")] = ""
    keep_in: Annotated[str, Meta(min_length=1, max_length=40, pattern=r"^[a-z][a-z0-9-]*\Z")] | None = None
    columns: Annotated[tuple[Column, ...], Meta(min_length=1, max_length=1_000)]
    unit: Name | None = None
    ordering: Annotated[tuple[Name, ...], Meta(max_length=32)] = ()
    max_rows_per_unit: Annotated[int, Meta(ge=1, le=ROWS_LIMIT)]
    max_groups_per_unit: Annotated[int, Meta(ge=1, le=GROUPS_LIMIT)]
    budget_kind: Literal["pure", "zcdp", "approx"] = "pure"
    budget: Decimal
    budget_delta: Decimal | None = None
    quota: Decimal | None = None
    window: WindowRequest | None = None
    adhoc: Annotated[tuple[Decimal, ...], Meta(max_length=64)] = ()
    owners: Contract | None = None
    reserve: ReserveRequest | None = None


class TierRequest(_Request, frozen=True, kw_only=True):
    """One rung of a ladder with its price."""

    epsilon: Decimal
    price_minor: Minor


class ProductRequest(_Request, frozen=True, kw_only=True):
    """A product: a question on a dataset and its tiers, most accurate first.

    `family` is one family of noise for all tiers, or "auto" for the least noisy one on each; `delta` is the δ of all
    tiers, 0 for pure ones. On a question that has a chain, tiers that it lacks are added to it.
    """

    dataset: Identity
    title: Line
    description: Paragraph = ""
    unit_label: Line
    left_out: Paragraph
    licence: Line
    currency: Currency
    query: Query
    tiers: Annotated[tuple[TierRequest, ...], Meta(min_length=1, max_length=64)]
    family: Family = "auto"
    delta: Decimal = "0"
    state: Literal["draft", "live"] = "live"


class WithdrawalRequest(_Request, frozen=True, kw_only=True):
    """Why a product goes off sale; the reason is public.

    A faulty one's orders are all credited with what was paid for them and not given back yet.
    """

    reason: Line
    faulty: bool = False


class CeilingRequest(_Request, frozen=True, kw_only=True):
    """An analyst's new ceiling: the highest ε of a tier that may be ordered from now on."""

    ceiling: Decimal


class QuoteRequest(_Request, frozen=True, kw_only=True):
    """A tier of a product, asked for by exactly one of: its law, its ε, or the widest 95 % error bar accepted.

    A mean's bar depends on how many rows there are: with `within` it needs `rows`, the fewest to reckon with.
    """

    product: Identity
    law: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")] | None = None
    epsilon: Decimal | None = None
    within: Decimal | None = None
    rows: Annotated[int, Meta(ge=1, le=2**53 - 1)] | None = None


class DemandRequest(_Request, frozen=True, kw_only=True):
    """A kind of buyer: how many, and what each would pay for every tier, most accurate first, in minor units."""

    count: Annotated[int, Meta(ge=1, le=100_000)]
    values_minor: Annotated[tuple[Minor, ...], Meta(min_length=1, max_length=64)]


class SimulationRequest(_Request, frozen=True, kw_only=True):
    """Demand for one menu; `product` compares with the prices it has now."""

    demand: Annotated[tuple[DemandRequest, ...], Meta(min_length=1, max_length=500)]
    product: Identity | None = None


class BundlePartRequest(_Request, frozen=True, kw_only=True):
    """A product of the caller's own in a bundle, at exactly one of a law or an ε that it offers."""

    product: Identity
    law: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")] | None = None
    epsilon: Decimal | None = None


class BundleRequest(_Request, frozen=True, kw_only=True):
    """A bundle: tiers of several products, all under one licence, at one price."""

    title: Line
    description: Paragraph = ""
    parts: Annotated[tuple[BundlePartRequest, ...], Meta(min_length=2, max_length=16)]
    currency: Currency
    price_minor: Minor
    state: Literal["draft", "live"] = "live"


class BundlePriceRequest(_Request, frozen=True, kw_only=True):
    """A bundle's new price: the next version."""

    currency: Currency
    price_minor: Minor


class SubscriptionRequest(_Request, frozen=True, kw_only=True):
    """A subscription to every snapshot at one tier; `drift`: variance of the value's change, in its unit squared."""

    epsilon: Decimal
    drift: Decimal


class CreditRequest(_Request, frozen=True, kw_only=True):
    """Money of one order to be given back, and why: only for a duplicate, a pricing error or a faulty product.

    `line_no`: the invoice's line, from 1; without it, from the first line that has something left.
    """

    amount_minor: Annotated[int, Meta(ge=1, le=2**53 - 1)]
    line_no: Annotated[int, Meta(ge=1, le=16)] | None = None
    reason: Literal["duplicate charge", "pricing error", "faulty product"]


class ExportRequest(_Request, frozen=True, kw_only=True):
    """What is to be exported: the caller's answers, a dataset's sales, or the auditor's whole log."""

    what: Exported


class PayoutRequest(_Request, frozen=True, kw_only=True):
    """Pay owners what is due in one currency."""

    currency: Currency


class RehearsalRequest(_Request, frozen=True, kw_only=True):
    """A tier to rehearse, by its ε or its law; the most accurate one unless given."""

    law: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")] | None = None
    epsilon: Decimal | None = None


class KeyRequest(_Request, frozen=True, kw_only=True):
    """One more API key; `label` is what operators know it by."""

    label: Line


class SuspensionRequest(_Request, frozen=True, kw_only=True):
    """Why an account is suspended."""

    reason: Line


class ThawRequest(_Request, frozen=True, kw_only=True):
    """Why a frozen chain may be sold again: it goes into the log."""

    reason: Line


class OrderRequest(_Request, frozen=True, kw_only=True):
    """An order cites a quote and accepts the licence in it, by its name; only an analyst, who pays nothing, may not."""

    quote: Identity
    licence: Line | None = None


RoundNumber: TypeAlias = Annotated[int, Meta(ge=1, le=10**9)]


class PanelRequest(_Request, frozen=True, kw_only=True):
    """A panel: its domain, its menu (most accurate first) with prices, and the ε that one device may spend in all.

    `promise` says what ε means: for any two values, or for each step of an ordered domain. `mechanism` is one that
    keeps it, or "auto" for the one of least variance over the menu. `mean_weight`: of a mixed plan, how much the mean
    ratio counts beside the worst, from 0 to 1.
    """

    title: Line
    domain: Annotated[tuple[Line, ...], Meta(min_length=2, max_length=4_096)]
    promise: Literal["values", "steps"] = "values"
    mechanism: Literal["auto", "subset", "randomized-response", "local-hash", "mixed", "flips"] = "auto"
    mean_weight: Decimal = "0"
    tiers: Annotated[tuple[TierRequest, ...], Meta(min_length=1, max_length=20)]
    currency: Currency
    licence: Line
    budget: Decimal


class PanelReportsRequest(_Request, frozen=True, kw_only=True):
    """Reports for a panel's open round, as rows, or as a file of the data folder: exactly one of both.

    `version` is that of the form of reports: 1.
    """

    version: Literal[1]
    round: RoundNumber
    reports: Annotated[tuple[ReportRow, ...], Meta(min_length=1, max_length=20_000)] | None = None
    file: Annotated[str, Meta(min_length=1, max_length=120, pattern=r"^[0-9A-Za-z][0-9A-Za-z._-]*\Z")] | None = None


class PanelQuoteRequest(_Request, frozen=True, kw_only=True):
    """A tier of a closed round, to be quoted."""

    round: RoundNumber
    epsilon: Decimal


class PanelReadingRequest(_Request, frozen=True, kw_only=True):
    """What is to be read off a tier that the caller holds."""

    round: RoundNumber
    epsilon: Decimal
    reading: Reading
