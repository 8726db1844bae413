"""Verdicts on offers and packs written by hand: what the market asks of a proposal."""

from collections.abc import Sequence

from app.catalog.classes import Offer, Pack
from app.catalog.shelf import Proposal, Shelf, judge_proposal
from app.catalog.verdicts import Ruling
from pricing.limit import UNLIMITED, Limit


def judge(offer: Offer, rivals: Sequence[Offer], limit: Limit = UNLIMITED, packs: Sequence[Pack] = ()) -> Ruling:
    shelf = Shelf((*rivals, offer), tuple(packs))
    return judge_proposal(Proposal(shelf, frozenset([offer.snapshot]), frozenset([offer.chain])), limit)


def judge_pack(pack: Pack, offers: Sequence[Offer], limit: Limit = UNLIMITED, packs: Sequence[Pack] = ()) -> Ruling:
    chains = frozenset(chain for chain, _ in pack.parts)
    return judge_proposal(
        Proposal(Shelf(tuple(offers), (*packs, pack)), frozenset([offers[0].snapshot]), chains, pack.bundle), limit
    )
