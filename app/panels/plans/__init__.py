"""What a panel's tiers are, by mechanism: how reports are written, derived, counted and read."""
