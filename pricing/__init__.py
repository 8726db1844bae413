"""What a tier costs: pure functions from chains and books to quotes."""
