"""Location panels in the log (A1 to A4): terms that add up, questions in order within them, sales within list prices.

Who was charged what is not in the log: `app.locations.replay` holds a disclosed panel against its leaves.
"""

from collections.abc import Mapping

import msgspec

from app.audit.panels import needing
from app.audit.reading import UNREADABLE
from app.errors import AppError
from app.locations.questions import canonical, kind_of, query_identity, question_text, read_question
from app.locations.terms import LAW, MEASURE, Terms, coordinate_of, list_price, space_of
from app.log.leaves import PlanLeaf
from app.log.location_leaves import LocationAnswerLeaf, LocationLeaf, LocationSaleLeaf
from tiers.audit.findings import Finding
from tiers.budget import decimal_text

__all__ = ["LocationAudit"]

_KINDS = {"range", "density", "nearest"}


class LocationAudit:
    """What the log has said of location panels so far; memory grows with panels and questions."""

    def __init__(self) -> None:
        self.panels: dict[str, LocationLeaf] = {}
        self.terms: dict[str, Terms] = {}
        self.lineages: dict[str, str] = {}
        self._planned: set[str] = set()
        self.answered: dict[str, int] = {}
        self._questions: dict[str, LocationAnswerLeaf] = {}
        self._telling: set[str] = set()

    def panel(self, leaf: LocationLeaf, snapshots: Mapping[str, str]) -> list[Finding]:
        """Take a panel that opens: on a snapshot of its lineage, the only one on it, with terms that can be kept."""
        found, need = needing(leaf.index)
        need(leaf.panel not in self.panels, "A4", "one-location", leaf.panel, "opened before")
        need(leaf.lineage not in self.lineages, "A3", "one-location-a-lineage", leaf.lineage, "it has a panel")
        need(leaf.lineage not in self._planned, "A3", "product-of-location", leaf.lineage, "it has products")
        of_lineage = snapshots.get(leaf.snapshot) == leaf.lineage
        need(of_lineage, "A4", "snapshot-of-location", leaf.snapshot, "no earlier snapshot of this lineage")
        need(leaf.promise == MEASURE, "A1", "location-promise", leaf.promise, MEASURE)
        need(leaf.law == LAW, "A1", "location-law", leaf.law, LAW)
        need(set(leaf.prices_minor) <= _KINDS, "A3", "location-prices", str(sorted(leaf.prices_minor)), str(_KINDS))
        try:
            self.terms[leaf.panel] = terms = _terms(leaf)
            diagonal = decimal_text(terms.diagonal)
            need(leaf.space.diagonal == diagonal, "A1", "location-diagonal", leaf.space.diagonal, diagonal)
        except (AppError, *UNREADABLE) as error:
            need(False, "A1", "location-terms", leaf.panel, str(error)[:200])
        self.panels.setdefault(leaf.panel, leaf)
        self.lineages.setdefault(leaf.lineage, leaf.panel)
        return found

    def plan(self, leaf: PlanLeaf) -> list[Finding]:
        """Take a product's plan: not on a lineage whose people are in a location panel, before or after."""
        found, need = needing(leaf.index)
        self._planned.add(leaf.lineage)
        need(leaf.lineage not in self.lineages, "A3", "product-of-location", leaf.lineage, "its places are sold")
        return found

    def answer(self, leaf: LocationAnswerLeaf) -> list[Finding]:
        """Take an answered question: the panel's next, in its one form, asked once, within what one may spend."""
        found, need = needing(leaf.index)
        terms, due = self.terms.get(leaf.panel), self.answered.get(leaf.panel, 0) + 1
        if terms is None:
            need(False, "A4", "location-of-answer", leaf.panel, "no earlier location panel's leaf")
            return found
        need(leaf.number == due, "A4", "question-order", f"question {leaf.number}", f"question {due} is due")
        self.answered[leaf.panel] = max(due, leaf.number)
        named = query_identity(leaf.panel, leaf.question, leaf.budget_nano)
        need(leaf.query == named, "A1", "query-identity", leaf.query, named[:16])
        need(leaf.query not in self._questions, "A3", "one-answer", leaf.query, "answered before")
        told = leaf.most_nano is not None  # leaves did not always say it
        kept = told or leaf.panel not in self._telling
        need(kept, "A3", "question-charge", "none", "earlier answers of the panel say theirs")
        if told:
            self._telling.add(leaf.panel)
        self._questions.setdefault(leaf.query, leaf)
        least, budget = terms.plan.least, leaf.budget_nano
        payable = least <= budget <= terms.query_nano
        need(payable, "A3", "query-budget", str(budget), f"{least} to {terms.query_nano}")
        try:
            asked = read_question(leaf.question)
            same = question_text(canonical(terms, asked)) == leaf.question
            need(same, "A1", "question-form", leaf.question, "its one form is another")
        except (msgspec.MsgspecError, AppError, *UNREADABLE) as error:
            need(False, "A1", "question-form", leaf.question, str(error)[:200])
        asked_each = [each.asked for each in leaf.rounds]
        falling = all(one >= two > 0 for one, two in zip([terms.people, *asked_each], asked_each, strict=False))
        fits = falling and len(asked_each) <= terms.rounds
        need(fits, "A3", "rounds", str(asked_each), "never more people than before, nobody, or more rounds")
        if not (payable and fits):
            return found
        most = [int(budget * part) for part in terms.plan.parts[: len(leaf.rounds)]]  # by class, less may cost more
        charged = [each.most_nano for each in leaf.rounds]
        within = all(0 < one <= two for one, two in zip(charged, most, strict=True))
        need(within, "A3", "round-charge", str(charged), f"at most {most}")
        if leaf.most_nano is not None:
            ends = max(charged), min(sum(charged), budget)
            whole = ends[0] <= leaf.most_nano <= ends[1]
            need(whole, "A3", "question-charge", str(leaf.most_nano), f"from {ends[0]} to {ends[1]}")
        return found

    def sale(self, leaf: LocationSaleLeaf) -> list[Finding]:
        """Take a sale: of an answered question, at most at its list price, under the panel's terms."""
        found, need = needing(leaf.index)
        panel, answered = self.panels.get(leaf.panel), self._questions.get(leaf.query)
        terms = self.terms.get(leaf.panel)
        if panel is None or answered is None or answered.panel != leaf.panel:
            need(False, "A3", "answer-of-sale", leaf.query, "no earlier leaf of the panel answers it")
            return found
        try:
            kind = kind_of(read_question(answered.question))
            listed = panel.prices_minor.get(kind)
            price = -1 if listed is None or terms is None else _most(terms, listed, answered.budget_nano)
        except (msgspec.MsgspecError, AppError, *UNREADABLE):
            price = -1
        need(0 <= leaf.price_minor <= price, "A3", "location-price", str(leaf.price_minor), f"list {price}")
        need(leaf.currency == panel.currency, "A3", "location-currency", leaf.currency, panel.currency)
        need(leaf.licence == panel.licence, "A3", "location-licence", leaf.licence, panel.licence)
        return found


def _most(terms: Terms, listed: int, budget_nano: int) -> int:
    """Return the most that a question costs: in proportion to its precision, or, as it was once, to its budget."""
    return max(list_price(terms, listed, budget_nano), -(-listed * budget_nano // terms.query_nano))


def _terms(leaf: LocationLeaf) -> Terms:
    low, high = (tuple(coordinate_of("axes", text) for text in ends) for ends in (leaf.space.low, leaf.space.high))
    space = space_of(low, high, coordinate_of("grain", leaf.space.grain))
    beta = coordinate_of("beta", leaf.beta)
    return Terms(space, leaf.people, leaf.budget_nano, leaf.query_nano, beta, leaf.rounds)
