"""Stand-ins for the world around the extender, on real loopback sockets: an API server, and a bad network."""
