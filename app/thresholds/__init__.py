"""Is a count above a number? Its chain's cheap tiers first, sold one by one, and no further than the answer needs."""
