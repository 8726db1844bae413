"""A2: every draw comes from its nearest known neighbours, once, and from the truth only where it says so."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from tiers.audit.findings import Finding
from tiers.audit.once import Once
from tiers.audit.records import DrawRecord, History, PlanRecord, SaleRecord, joined
from tiers.audit.slack import check_bridge
from tiers.chain.steps import between, sampler_of, step_law
from tiers.errors import TierError
from tiers.identity import DrawSpec, Role, TierLaw
from tiers.rank import by_accuracy, more_accurate

__all__ = ["ChainDraws", "Provenance", "check_provenance", "due_sampler"]

_DRAWS_LIMIT = 1024


@dataclass(slots=True)
class ChainDraws:
    """What is known of one chain while its draws are read in order; `issued` is its most accurate sold law."""

    draws: dict[str, DrawRecord] = field(default_factory=dict)
    issued: TierLaw | None = None
    sold: set[str] = field(default_factory=set)

    def above(self, law: TierLaw) -> DrawRecord | None:
        """Return the draw of the nearest known tier above a law."""
        upper = [draw.spec.law for draw in self.draws.values() if more_accurate(draw.spec.law, law)]
        return self.draws[by_accuracy(upper)[-1].identity] if upper else None

    def below(self, law: TierLaw) -> DrawRecord | None:
        """Return the draw of the nearest known tier below a law."""
        lower = [draw.spec.law for draw in self.draws.values() if more_accurate(law, draw.spec.law)]
        return self.draws[by_accuracy(lower)[0].identity] if lower else None

    def take(self, draw: DrawRecord) -> list[Finding]:
        """Take the next draw of the chain, and return what is wrong with its place, parents and sampler."""
        where, law = f"leaf {draw.leaf}", draw.spec.law.identity
        if law in self.draws:
            return [Finding("A2", "second-answer", where, law, f"drawn before, leaf {self.draws[law].leaf}")]
        if len(self.draws) >= _DRAWS_LIMIT:
            return [Finding("A2", "length-of-chain", where, f"over {_DRAWS_LIMIT} draws", "fewer")]
        known = [each.spec.law for each in self.draws.values()]
        found = [*_place(draw, self), *_parents(draw, self), *check_bridge(draw.spec, known, where)]
        due = due_sampler(draw.spec)
        if draw.spec.sampler != due:
            found.append(Finding("A2", "sampler", where, draw.spec.sampler[:60], due or "no sampler for this step"))
        self.draws[law] = draw
        return found


class Provenance:
    """The draws of a log that is read once, in order: `chains` holds what A7 replays."""

    def __init__(self) -> None:
        self.chains: dict[str, ChainDraws] = {}
        self._planned: dict[str, Mapping[str, TierLaw]] = {}
        self._epochs: set[int] = set()
        self._keys = Once()

    def plan(self, record: PlanRecord) -> None:
        """Learn the laws that a plan brings to its chain."""
        self._planned[record.chain] = joined(self._planned.get(record.chain), record.laws)

    def epoch(self, number: int) -> None:
        """Learn that an epoch of the owners' secrets is in force."""
        self._epochs.add(number)

    def draw(self, draw: DrawRecord) -> list[Finding]:
        """Take the next draw, and return what is wrong with it."""
        where, chain, found = f"leaf {draw.leaf}", draw.spec.chain, []
        law = draw.spec.law.identity
        if law not in self._planned.get(chain, ()):
            found.append(Finding("A2", "planned", where, law, "no earlier plan of this chain has this law"))
        if draw.spec.epoch not in self._epochs:
            found.append(Finding("A2", "epoch", where, f"epoch {draw.spec.epoch}", "no earlier leaf opens it"))
        self._keys.add(draw.key_hash, draw.leaf)
        return found + self.chains.setdefault(chain, ChainDraws()).take(draw)

    def sale(self, sale: SaleRecord) -> list[Finding]:
        """Take the next sale, and return a finding where what it sells was not drawn before."""
        chain = self.chains.get(sale.chain)
        if chain is not None and sale.law in chain.sold:
            return []
        draw = None if chain is None else chain.draws.get(sale.law)
        if chain is None or draw is None:
            where = f"leaf {sale.leaf}"
            return [Finding("A2", "drawn-before-sold", where, sale.law, "no earlier draw of this law")]
        law = draw.spec.law
        chain.sold.add(sale.law)
        if chain.issued is None or more_accurate(law, chain.issued):
            chain.issued = law
        return []

    def finish(self) -> list[Finding]:
        """Return what only the whole log shows: draws that share a stream."""
        return [
            Finding("A2", "reused-key", f"leaf {later}", "a stream of its own", f"the key of leaf {first}")
            for first, later in self._keys.repeated()
        ]


def check_provenance(history: History) -> tuple[Finding, ...]:
    """Return every star, repeat, wrong parent, second truth draw, reused key, foreign sampler, early sale."""
    read, found = Provenance(), []
    epochs = sorted((leaf, number) for number, leaf in history.epochs.items())
    records: list[PlanRecord | DrawRecord | SaleRecord] = [*history.plans, *history.draws, *history.sales]
    for record in sorted(records, key=lambda each: each.leaf):
        while epochs and epochs[0][0] < record.leaf:
            read.epoch(epochs.pop(0)[1])
        match record:
            case PlanRecord():
                read.plan(record)
            case DrawRecord():
                found += read.draw(record)
            case SaleRecord():
                found += read.sale(record)
    return (*found, *read.finish())


def due_sampler(spec: DrawSpec) -> str | None:
    """Return the sampler by which this version makes such a draw, or None where no residual leads to it.

    Example:
        >>> from tiers.budget import Ladder
        >>> from tiers.chain import plan, specs
        >>> made = specs("0" * 64, plan(Ladder.parse(["2", "1"]), 1), epoch=1, grain=0, length=1)
        >>> [due_sampler(spec) for spec in made]
        ['tsg-digits/2', 'tsg-digits/2']
    """
    return _due_sampler(spec.role, spec.law, spec.parents, spec.length)


@lru_cache(maxsize=4096)
def _due_sampler(role: Role, law: TierLaw, parents: tuple[TierLaw, ...], length: int) -> str | None:
    laws = law.noise, tuple(parent.noise for parent in parents)
    try:
        if role in (Role.BASE, Role.RESIDUAL):
            return sampler_of(step_law(role, *laws), length)
        return between(role, *laws).name
    except (TierError, ArithmeticError):
        return None


def _place(draw: DrawRecord, chain: ChainDraws) -> list[Finding]:
    where = f"leaf {draw.leaf}"
    found = []
    if draw.place != len(chain.draws):
        found.append(Finding("A2", "order-of-drawing", where, str(draw.place), str(len(chain.draws))))
    first = next(iter(chain.draws.values()), draw)
    same = ("length", "grain")
    if any(getattr(draw.spec, name) != getattr(first.spec, name) for name in same):
        found.append(Finding("A2", "one-shape", where, "length and grain of the chain", "another length or grain"))
    if draw.spec.law.change_set != first.spec.law.change_set:
        found.append(Finding("A2", "one-change-set", where, "the chain's change set", "another change set"))
    return found


def _parents(draw: DrawRecord, chain: ChainDraws) -> list[Finding]:
    where, role = f"leaf {draw.leaf}", draw.spec.role
    above, below = chain.above(draw.spec.law), chain.below(draw.spec.law)
    nearest: dict[Role, tuple[DrawRecord | None, ...]] = {
        Role.BASE: (),
        Role.RESIDUAL: (above,),
        Role.BRIDGE: (above, below),
        Role.LATE_TOP: (below,),
    }
    found = []
    if role is Role.BASE and chain.draws:
        found.append(Finding("A2", "second-truth-draw", where, role.value, "the chain has a base draw already"))
    if role is Role.LATE_TOP and above is not None:
        found.append(Finding("A2", "late-top", where, role.value, f"leaf {above.leaf} is more accurate"))
    if role is Role.RESIDUAL and below is not None:
        found.append(Finding("A2", "bridge", where, role.value, f"leaf {below.leaf} is known below: a bridge is due"))
    wanted = tuple(parent.commitment if parent else "none" for parent in nearest[role])
    laws = tuple(parent.spec.law if parent else None for parent in nearest[role])
    if draw.parents != wanted or draw.spec.parents != laws:
        found.append(Finding("A2", "nearest-parents", where, _short(draw.parents), _short(wanted)))
    return found


def _short(commitments: tuple[str, ...]) -> str:
    return ", ".join(text[:12] for text in commitments) or "no parent"
