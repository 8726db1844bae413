"""Asking: reveal a count's tiers from the lowest up, each by an ordinary order, until the threshold is decided."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import msgspec

from app.auth.accounts import Caller
from app.errors import AppError, ConflictError, IdempotencyError, QuoteExpiredError
from app.ledger.budget import nano_text
from app.market import Market
from app.thresholds.orders import Question, key_of_look, offer_look, open_question, question_of
from app.thresholds.shapes import ThresholdOrderView, ThresholdStepView
from tiers.adaptive.threshold import ThresholdAnswer, read_looks

__all__ = ["ask_threshold", "told_threshold"]

_ATTEMPTS = 8
_SERVER = 500


async def ask_threshold(
    market: Market, caller: Caller, quote: str, key: str, licence: str | None = None
) -> ThresholdOrderView:
    """Order a question and carry it as far as it goes; the same order, sent again, goes on where it stands.

    Tiers are looked at one by one: the next is ordered when the last was revealed and did not decide. Each is a sale of
    its own, with its charge, receipt and right, so a crash between two loses nothing: what was revealed is sold, and
    the rest is not. Who asks twice at once places the same orders, as both derive the same keys.

    Where a tier is refused (budget, money, price, off sale), the question is left open, and says why; before the first
    one the refusal is the answer, and nothing is sold.

    Raises:     as `open_question` does, and as an order does where the market itself fails.
    """
    now = market.clock()
    order = await market.database.write(
        lambda connection: open_question(connection, market.settings, caller, quote, key, licence, now)
    )
    question, values = await _looked(market, caller, order)
    halt: AppError | None = None
    while len(values) < len(question.plan.looks) and not (values and _read(question, values).decided):
        try:
            await _look(market, caller, question, len(values), licence)
        except AppError as refused:
            if refused.status >= _SERVER or not values:
                raise
            halt = refused
            break
        question, values = await _looked(market, caller, order)
    return _view(question, values, halt)


async def told_threshold(market: Market, caller: Caller, order: str) -> ThresholdOrderView:
    """Return one of the caller's questions as far as it has come; reveals and buys nothing.

    Raises:     NotFoundError: no such order of theirs. NotEntitledError: an answer that they may no longer read.
    """
    return _view(*await _looked(market, caller, order), None)


async def _looked(market: Market, caller: Caller, order: str) -> tuple[Question, list[int]]:
    """A question with the values that it has revealed: each is read as its holder reads it."""
    question = await market.database.read(lambda connection: question_of(connection, caller.id, order))
    plan, values = question.plan, []
    for look in plan.looks[: len(question.sold)]:
        held = await market.answer(caller, plan.chain, look.law)
        values.append(int(msgspec.json.decode(held.body)["values"][plan.place]))
    return question, values


async def _look(market: Market, caller: Caller, question: Question, place: int, licence: str | None) -> None:
    """Order one tier at the price of now, which is never more than was agreed; somebody else's doing it is as good."""
    for _ in range(_ATTEMPTS):
        quote = await market.database.write(
            partial(
                offer_look,
                settings=market.settings,
                caller=caller,
                order=question.id,
                place=place,
                now=market.clock(),
            )
        )
        if quote is None:
            return
        try:
            await market.order(caller, quote, key_of_look(question.id, place), licence)
        except (QuoteExpiredError, IdempotencyError):
            continue  # the price moved, or the same question sold it meanwhile: look again
        return
    raise ConflictError("quote: expected a price that stands for a moment, got one that keeps changing")


def _read(question: Question, values: Sequence[int]) -> ThresholdAnswer:
    """`above` X is to be at least X + 1, which is not to be below it."""
    return read_looks(values, question.plan.widths, question.plan.above + 1)


def _view(question: Question, values: Sequence[int], halt: AppError | None) -> ThresholdOrderView:
    plan = question.plan
    read = _read(question, values) if values else None
    answer: Literal["above", "not above", "undecided"] = "undecided"
    ended: Literal["decided", "looked at all", "open"] = "looked at all" if len(values) == len(plan.looks) else "open"
    if read is not None and read.decided:
        answer, ended = "not above" if read.below else "above", "decided"
    return ThresholdOrderView(
        order=question.id,
        product=plan.product,
        chain=plan.chain,
        above=plan.above,
        beta=plan.beta,
        key=plan.key,
        answer=answer,
        seems_above=None if read is None else not read.below,
        ended=ended,
        steps=[
            ThresholdStepView(
                order=row.id,
                law=look.law,
                rank=look.rank,
                epsilon=look.epsilon,
                half_width=str(look.half_width),
                value=str(value),
                amount_minor=row.amount_minor,
                receipt=msgspec.json.decode(row.receipt_json),
            )
            for row, look, value in zip(question.sold, plan.looks, values, strict=False)
        ],
        paid_minor=question.paid_minor,
        most_minor=plan.most_minor,
        currency=plan.currency,
        charge=nano_text(sum(row.charge_nano for row in question.sold)),
        halt=None if halt is None else _problem(halt),
        at=question.at,
    )


def _problem(refused: AppError) -> dict[str, Any]:
    """A refusal as it stands beside an answer: kind, status and detail, as a job's result has them."""
    return {"type": refused.kind, "status": refused.status, "detail": refused.detail, **refused.fields}
