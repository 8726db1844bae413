"""Location panels: people's places, asked in adaptive rounds, and the answers sold; a ledger a person."""
