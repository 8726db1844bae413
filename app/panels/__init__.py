"""Panels: reports that are private before they arrive, derived to every tier once, and sold tier by tier."""
