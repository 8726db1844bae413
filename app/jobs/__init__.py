"""Long work with progress, beside the requests."""
