"""Queries that spend only what the data make them: rounds of noise, and nobody asked again who no longer matters."""
