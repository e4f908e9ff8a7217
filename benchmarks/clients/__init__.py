"""Real clients from their registries, run against a fake vendor: once straight and once through the server."""
