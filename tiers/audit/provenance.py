"""A2: every draw comes from its nearest known neighbours, once, and from the truth only where it says so."""

from dataclasses import dataclass, field

from tiers.audit.findings import Finding
from tiers.audit.records import DrawRecord, History
from tiers.audit.slack import check_bridge
from tiers.chain.steps import between, sampler_of, step_law
from tiers.errors import TierError
from tiers.identity import DrawSpec, Role, TierLaw
from tiers.rank import by_accuracy, more_accurate

__all__ = ["check_provenance", "due_sampler"]

_DRAWS_LIMIT = 1024


@dataclass(slots=True)
class _Chain:
    """What is known of one chain while its draws are read in order."""

    drawn: dict[str, DrawRecord] = field(default_factory=dict)

    def above(self, law: TierLaw) -> DrawRecord | None:
        upper = [draw.spec.law for draw in self.drawn.values() if more_accurate(draw.spec.law, law)]
        return self.drawn[by_accuracy(upper)[-1].identity] if upper else None

    def below(self, law: TierLaw) -> DrawRecord | None:
        lower = [draw.spec.law for draw in self.drawn.values() if more_accurate(law, draw.spec.law)]
        return self.drawn[by_accuracy(lower)[0].identity] if lower else None


def check_provenance(history: History) -> tuple[Finding, ...]:
    """Return every star, repeat, wrong parent, second truth draw, reused key, foreign sampler, early sale."""
    found: list[Finding] = []
    chains: dict[str, _Chain] = {}
    planned = {(p.chain, tier.law.identity): p.leaf for p in reversed(history.plans) for tier in p.tiers}
    keys: dict[str, int] = {}
    for draw in history.draws:
        where = f"leaf {draw.leaf}"
        chain = chains.setdefault(draw.spec.chain, _Chain())
        law = draw.spec.law.identity
        if planned.get((draw.spec.chain, law), draw.leaf) >= draw.leaf:
            found.append(Finding("A2", "planned", where, law, "no earlier plan of this chain has this law"))
        if history.epochs.get(draw.spec.epoch, draw.leaf) >= draw.leaf:
            found.append(Finding("A2", "epoch", where, f"epoch {draw.spec.epoch}", "no earlier leaf opens it"))
        if law in chain.drawn:
            found.append(Finding("A2", "second-answer", where, law, f"drawn before, leaf {chain.drawn[law].leaf}"))
            continue
        if len(chain.drawn) >= _DRAWS_LIMIT:
            found.append(Finding("A2", "length-of-chain", where, f"over {_DRAWS_LIMIT} draws", "fewer"))
            continue
        if draw.key_hash in keys:
            found.append(
                Finding("A2", "reused-key", where, "a stream of its own", f"the key of leaf {keys[draw.key_hash]}")
            )
        keys[draw.key_hash] = draw.leaf
        found += _place(draw, chain)
        found += _parents(draw, chain)
        found += check_bridge(draw.spec, [each.spec.law for each in chain.drawn.values()], where)
        due = due_sampler(draw.spec)
        if draw.spec.sampler != due:
            found.append(Finding("A2", "sampler", where, draw.spec.sampler[:60], due or "no sampler for this step"))
        chain.drawn[law] = draw
    return (*found, *_sold(history))


def due_sampler(spec: DrawSpec) -> str | None:
    """Return the sampler by which this version makes such a draw, or None where no residual leads to it.

    Example:
        >>> from tiers.budget import Ladder
        >>> from tiers.chain import plan, specs
        >>> made = specs("0" * 64, plan(Ladder.parse(["2", "1"]), 1), epoch=1, grain=0, length=1)
        >>> [due_sampler(spec) for spec in made]
        ['tsg-digits/1', 'tsg-digits/1']
    """
    laws = spec.law.noise, tuple(parent.noise for parent in spec.parents)
    try:
        if spec.role in (Role.BASE, Role.RESIDUAL):
            return sampler_of(step_law(spec.role, *laws), spec.length)
        return between(spec.role, *laws).name
    except (TierError, ArithmeticError):
        return None


def _place(draw: DrawRecord, chain: _Chain) -> list[Finding]:
    where = f"leaf {draw.leaf}"
    found = []
    if draw.place != len(chain.drawn):
        found.append(Finding("A2", "order-of-drawing", where, str(draw.place), str(len(chain.drawn))))
    first = next(iter(chain.drawn.values()), draw)
    same = ("length", "grain")
    if any(getattr(draw.spec, name) != getattr(first.spec, name) for name in same):
        found.append(Finding("A2", "one-shape", where, "length and grain of the chain", "another length or grain"))
    if draw.spec.law.change_set != first.spec.law.change_set:
        found.append(Finding("A2", "one-change-set", where, "the chain's change set", "another change set"))
    return found


def _parents(draw: DrawRecord, chain: _Chain) -> list[Finding]:
    where, role = f"leaf {draw.leaf}", draw.spec.role
    above, below = chain.above(draw.spec.law), chain.below(draw.spec.law)
    nearest: dict[Role, tuple[DrawRecord | None, ...]] = {
        Role.BASE: (),
        Role.RESIDUAL: (above,),
        Role.BRIDGE: (above, below),
        Role.LATE_TOP: (below,),
    }
    found = []
    if role is Role.BASE and chain.drawn:
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


def _sold(history: History) -> list[Finding]:
    first: dict[tuple[str, str], int] = {}
    for draw in history.draws:
        first.setdefault((draw.spec.chain, draw.spec.law.identity), draw.leaf)
    return [
        Finding("A2", "drawn-before-sold", f"leaf {sale.leaf}", sale.law, "no earlier draw of this law")
        for sale in history.sales
        if first.get((sale.chain, sale.law), sale.leaf) >= sale.leaf
    ]


def _short(commitments: tuple[str, ...]) -> str:
    return ", ".join(text[:12] for text in commitments) or "no parent"
