"""What a data market charges, reserves, checks and pays out: pure functions over integers, no I/O and no clock."""
