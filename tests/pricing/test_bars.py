"""Where variance and error bar disagree: what "safe" says, and what docs/pricing.md says that it does not."""

import numpy as np

from pricing.arbitrage import Verdict, audit_catalogue
from pricing.catalogue import Catalogue
from tests.pricing.market import chain, tsg, unit


def geometric(epsilon, reach=400):
    """Masses of two-sided geometric noise, −reach to reach."""
    steps = np.abs(np.arange(-reach, reach + 1))
    return np.tanh(epsilon / 2) * np.exp(-epsilon * steps)


def bar(masses):
    """The least h with P(|noise| ≤ h) ≥ 0.95."""
    middle = len(masses) // 2
    inside = np.cumsum(np.append(masses[middle], masses[middle + 1 :] + masses[:middle][::-1]))
    return int(np.argmax(inside >= 0.95))


def test_bins_whose_variance_is_too_large_may_give_the_totals_bar_for_less():
    """Four bins at ε = 0.5: the sum of their noise is nearer to a Gaussian, and within ±11 as the total at 0.28 is."""
    one = geometric(0.5)
    four = np.convolve(np.convolve(one, one), np.convolve(one, one))
    assert abs(four.sum() - 1) < 1e-12
    assert (bar(one), bar(four), bar(geometric(0.28)), bar(geometric(0.29))) == (6, 11, 11, 10)
    assert 1.23 < 4 * tsg(0.5) / tsg(0.28) < 1.24, "a quarter more variance, the same bar"
    bins = [product for place in range(4) for product in chain(f"bin{place}", {0.5: 1000}, [unit(4, place)])]
    catalogue = Catalogue((*bins, *chain("total", {0.28: 4900}, [unit(4, 0, 1, 2, 3)])))
    (found,) = [each for each in audit_catalogue(catalogue, 3) if each.name == "total@0.28"]
    assert found.verdict is Verdict.SAFE, "no purchase has the total's variance: that is what safe means"
