"""Structured logs on standard error: events and kinds, never an answer, a key, a token or a row."""

import logging
import sys

import structlog

__all__ = ["configure_logging"]


def configure_logging() -> None:
    """Log JSON lines from `warning` up."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
