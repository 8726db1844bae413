"""A chain: one answer at several tiers, each derived from the tier above by exactly the noise that is missing."""

from tiers.chain.draw import Draw, answer_bytes, answer_of, draw_arrays, draw_chain, noise_of, specs
from tiers.chain.extension import extend
from tiers.chain.families import BestAlone, best_alone
from tiers.chain.insertion import check_truth, insert, late_spec
from tiers.chain.planner import CONFIDENCE, ChainPlan, PlannedTier, plan, plan_of

__all__ = [
    "CONFIDENCE",
    "BestAlone",
    "ChainPlan",
    "Draw",
    "PlannedTier",
    "answer_bytes",
    "answer_of",
    "best_alone",
    "check_truth",
    "draw_arrays",
    "draw_chain",
    "extend",
    "insert",
    "late_spec",
    "noise_of",
    "plan",
    "plan_of",
    "specs",
]
