"""Long exports: made by jobs, kept sealed for a while, read by who asked for them."""
