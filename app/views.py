"""Response bodies: frozen structs; none holds a row, and only an order and an answer hold an answer."""

from typing import Any, Literal

import msgspec

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
    "TierView",
]

BudgetState = Literal["enough", "nearly exhausted", "exhausted"]


class AccountView(msgspec.Struct, frozen=True, kw_only=True):
    """An account as its holder sees it; `api_key` only in the answer that creates it."""

    account: str
    role: str
    pseudonym: str
    balance_minor: int
    currency: str
    ceiling: str | None = None
    api_key: str | None = None


class PostingView(msgspec.Struct, frozen=True, kw_only=True):
    """Money into (or, negative, out of) an account: `entry` counts within the account, `reference` says what for."""

    entry: int
    kind: str
    amount_minor: int
    currency: str
    reference: str
    at: str


class MeanBarView(msgspec.Struct, frozen=True, kw_only=True):
    """What a mean's tier promises before it is sold: half-widths that both noises keep to together, 95 % of the time.

    `sum_half_width` is in units of the column, `count_half_width` in rows, `reach` the most that a unit's centred total
    can be. A mean of at least `rows` rows is then known to (sum_half_width + reach · count_half_width) / (rows −
    count_half_width), rounded up, or not at all; the interval that is shown with the answer is mostly narrower.
    """

    confidence: str
    sum_half_width: str
    count_half_width: int
    reach: str
    bars: list[dict[str, Any]]


class TierView(msgspec.Struct, frozen=True, kw_only=True):
    """One tier on a listing: what it promises and costs, and whether the budget still admits it.

    `added_at` is the time of a tier that joined a chain already drawn: what was known by then may have moved its owner
    to add it, so its error bar holds only as far as it did not. A mean's half-widths are its sum's:
    its own bars are in `mean`.
    """

    rank: int
    law: str
    epsilon: str
    delta: str
    family: str
    half_width: str
    half_width_value: str
    same_as_above: str | None
    price_minor: int
    admitted: bool
    added_at: str | None
    mean: MeanBarView | None = None


class ProductView(msgspec.Struct, frozen=True, kw_only=True):
    """A product's listing. Keys stand in the owner's order; answers come in canonical (sorted) order.

    A mean's listing is its centred sum's, at the ε and price of both parts, with the count's for `companion`.
    """

    product: str
    leaf_index: int
    dataset: str
    dataset_title: str
    dataset_notice: str
    chain: str
    snapshot: str
    fingerprint: str
    title: str
    description: str
    unit_label: str
    left_out: str
    licence: str
    state: str
    derivation: list[str]
    keys: list[str]
    grain_exponent: int
    currency: str
    book_version: int
    budget_state: BudgetState
    arbitrage: str
    tiers: list[TierView]
    companion: "ProductView | None" = None


class DatasetView(msgspec.Struct, frozen=True, kw_only=True):
    """A dataset as its owner sees it: exact budget, and the charge of every chain, in ε (a pure ledger) or ρ.

    `promise` is the ε and δ of an approximate budget.
    """

    dataset: str
    name: str
    title: str
    snapshot: str
    unit: str
    salt: str
    budget_kind: str
    promise: list[str] | None
    budget: str
    spent: str
    remaining: str
    chains: list[dict[str, Any]]


class ColumnView(msgspec.Struct, frozen=True, kw_only=True):
    """A declared column: its name in queries, its type, and the id by which fingerprints know it."""

    name: str
    type: str
    id: str


class DictionaryView(msgspec.Struct, frozen=True, kw_only=True):
    """What a dataset declares in public: no row, no count, no file; the budget's state in three values."""

    dataset: str
    name: str
    title: str
    description: str
    notice: str
    columns: list[ColumnView]
    unit: str
    adjacency: str
    ordering: list[str]
    max_rows_per_unit: int
    max_groups_per_unit: int
    budget_state: BudgetState


class OrderView(msgspec.Struct, frozen=True, kw_only=True):
    """An order of the caller's, without its receipt and answer."""

    order: str
    leaf_index: int
    product: str
    title: str
    chain: str
    law: str
    epsilon: str
    amount_minor: int
    currency: str
    at: str


class EntitlementView(msgspec.Struct, frozen=True, kw_only=True):
    """A tier that the caller may read, and where."""

    chain: str
    law: str
    rank: int
    epsilon: str
    product: str
    title: str
    order: str
    leaf_index: int
    answer: str


class HolderView(msgspec.Struct, frozen=True, kw_only=True):
    """An account as operators see it."""

    account: str
    role: str
    name: str
    pseudonym: str
    balance_minor: int
    currency: str
    ceiling: str | None
    created_at: str
    suspended_at: str | None
    suspension_reason: str | None


class KeyView(msgspec.Struct, frozen=True, kw_only=True):
    """An API key as operators see it; `api_key` only in the answer that issues it."""

    key: str
    prefix: str
    label: str
    created_at: str
    revoked_at: str | None
    api_key: str | None = None


class AnswerView(msgspec.Struct, frozen=True, kw_only=True):
    """An answer as it travels: lattice integers as text, keys in canonical order; `dummy` in rehearsals only."""

    chain: str
    confidence: str
    epsilon: str
    grain_exponent: int
    half_width: str
    keys: list[str]
    law: str
    snapshot: str
    values: list[str]
    dummy: bool = False
    notice: str = ""


class PlacedView(msgspec.Struct, frozen=True, kw_only=True):
    """An order as placed: its signed receipt, the opening of the answer's commitment, the answer, what is read off it.

    A mean is two orders: the companion is its count's. A bundle is one order of several, `bundle_order`: the first is
    shown with the `others` behind it.
    """

    receipt: dict[str, Any]
    opening: str
    answer: AnswerView
    replayed: bool
    companion: "PlacedView | None"
    reading: dict[str, Any] | None
    bundle_order: str | None
    others: list["PlacedView"]


class BundlePartView(msgspec.Struct, frozen=True, kw_only=True):
    """A tier in a bundle, as its product lists it; `admitted`: whether the budget still admits it."""

    product: str
    title: str
    dataset: str
    dataset_title: str
    unit_label: str
    law: str
    epsilon: str
    half_width_value: str
    price_minor: int
    admitted: bool


class BundleView(msgspec.Struct, frozen=True, kw_only=True):
    """A bundle's listing: what it holds, what that costs alone, and what the bundle saves who holds none of it.

    `on_sale`: it is live, and so is every part of it, and the budget admits each.
    """

    bundle: str
    number: int
    title: str
    description: str
    licence: str
    currency: str
    state: str
    version: int
    price_minor: int
    alone_minor: int
    saving_minor: int
    on_sale: bool
    arbitrage: str
    parts: list[BundlePartView]


class BundleOrderView(msgspec.Struct, frozen=True, kw_only=True):
    """The one order of a bundle, and the orders that are its lines, a signed receipt each."""

    order: str
    bundle: str
    title: str
    version: int
    amount_minor: int
    discount_minor: int
    currency: str
    at: str
    receipts: list[dict[str, Any]]


class ProblemView(msgspec.Struct, frozen=True, kw_only=True):
    """A refusal (RFC 9457); some kinds add members of their own."""

    status: int
    type: str
    title: str
    detail: str


class PanelTierView(msgspec.Struct, frozen=True, kw_only=True):
    """One tier of a panel: its ε, its price a round, and the law of its reports.

    `rank` is its number: by accuracy among those that the panel opened with, then in the order of being added.
    `count_bar` times the square root of a round's reports is the 95 % half-width of one value's count.
    """

    rank: int
    epsilon: str
    price_minor: int
    count_bar: str
    law: dict[str, str]


class PanelRoundView(msgspec.Struct, frozen=True, kw_only=True):
    """A closed round: how many reports it has, its signed record, and its leaf (none: it is not sold)."""

    round: int
    reports: int
    record: dict[str, Any]
    signing_key: int
    signature: str
    leaf_index: int | None


class PanelView(msgspec.Struct, frozen=True, kw_only=True):
    """A panel's listing; `device_law` is what devices encode with, `open_round` the round that they report in."""

    panel: str
    leaf_index: int | None
    title: str
    domain: list[str]
    promise: Literal["values", "steps"]
    mechanism: str
    device_law: dict[str, str]
    tiers: list[PanelTierView]
    currency: str
    licence: str
    budget: str
    open_round: int
    rounds: list[PanelRoundView]


class PanelDeliveryView(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a delivery: `refusals` names the first hundred refused lines and the rules that they break."""

    round: int
    accepted: int
    refused: int
    refusals: list[dict[str, Any]]


class QuoteLineView(msgspec.Struct, frozen=True, kw_only=True):
    """One signed amount of a quote, with its reason."""

    kind: str
    text: str
    amount_minor: int


class PanelQuoteView(msgspec.Struct, frozen=True, kw_only=True):
    """What a tier of a round costs the caller until the quote expires; `chain` and `law` name them in papers."""

    quote: str
    panel: str
    round: int
    rank: int
    epsilon: str
    reports: int
    chain: str
    law: str
    lines: list[QuoteLineView]
    amount_minor: int
    currency: str
    licence: str
    expires_at: str


class PanelPlacedView(msgspec.Struct, frozen=True, kw_only=True):
    """An order as placed: its signed receipt, and the tier's counts with what opens the commitment to them."""

    receipt: dict[str, Any]
    panel: str
    round: int
    rank: int
    opening: str
    counts: list[int]
    replayed: bool


class PanelReadingView(msgspec.Struct, frozen=True, kw_only=True):
    """Estimates read off a tier: unbiased, possibly negative, each with the half-width of its 95 % bar."""

    panel: str
    round: int
    epsilon: str
    reports: int
    confidence: str
    values: list[dict[str, str]]
