"""The market service: the only package that knows HTTP, SQL, Redis, files and time."""

from importlib.metadata import version

__version__ = version("tiermarket")
