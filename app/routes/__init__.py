"""The HTTP API: handlers translate, the engine decides."""
