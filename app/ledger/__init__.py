"""Two ledgers with one writer each: money in minor units, privacy in 10⁻⁹ ε."""
