"""The guard, which validates every answer once more before it is sent: `guard` has its rules."""
