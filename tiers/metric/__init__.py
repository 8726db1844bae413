"""Metric local privacy: values that are near are hidden from each other more than values that are far apart."""
