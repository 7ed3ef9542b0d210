"""Taints of nodes, and what the sentence, the terminal's table and the page all say of what these have in common."""

A, B = {"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "NoSchedule"}

TAINTED = [
    ([[A], [A], [B], [B]], "(a:NoSchedule on 2; b:NoSchedule on 2)"),
    ([[A, B]] * 4, "(a:NoSchedule; b:NoSchedule)"),
    ([[A], [A], [A], [B]], "(a:NoSchedule on 3)"),
]
"""Taints of each node, and the words."""
