"""The guard validates every answer before it is sent; its rules are in `guard`."""
