"""Who calls: roles, API keys, and what each route allows."""
