"""Checks of the local model: Subset, its operators and its plans."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from tests.golden.golden_cases import Checked
from tiers.budget import Ladder
from tiers.local.planning import plan_subset
from tiers.local.signal import keep
from tiers.local.subset import Subset, expanded
from tiers.real import to_float

Data = Mapping[str, Any]


def subset(case: Data, checked: Checked) -> None:
    law = Subset.paying(case["d"], case["k"], Fraction(case["eps"]))
    checked.close(law.rates().true, case["t"])
    checked.close(law.rates().false, case["f"])
    checked.close(law.variance(), case["variance"])
    checked.close(expanded(law, case["k"] + 1).epsilon(), case["expansion_eps"])
    target = Fraction(case["rescale_to"])
    beta = keep(law.signal, Subset.paying(law.domain_size, law.subset_size, target).signal)
    checked.close(to_float(beta), case["rescale_beta"])
    kept = law.signal.value() * to_float(beta)
    back = Subset.paying(case["d"], case["k"], target)
    checked.close(kept, back.signal.value())
    checked.close(back.epsilon(), case["rescale_back_check"])


def subset_plan(case: Data, checked: Checked) -> None:
    plan = plan_subset(case["d"], Ladder.parse(case["menu"]))
    checked.close(plan.worst_ratio, case["worst_ratio"])
    checked.close(plan.mean_ratio, case["mean_ratio"])
    checked.same(len(plan.tiers), len(case["tiers"]))
    for tier, want in zip(plan.tiers, case["tiers"], strict=True):
        checked.same(tier.subset_size, want["k"])
        checked.close(tier.epsilon(), want["effective_eps"])
