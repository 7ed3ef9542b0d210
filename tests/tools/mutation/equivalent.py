"""Equivalent mutants: those that no test can distinguish from the original module, each with the reason.

Checked: a mutant that a test kills, or that is not generated any more, is an error.
"""

_ANY_NAME = "the name of the share is read nowhere, and no other share has this name"
_ALLOWS_NOTHING = "a negative allowance allows nothing as well"
_ONLY_ALWAYS_ALLOW = (
    "with desiredHealthy 0 unready pods count like ready pods, so this line is reached only with AlwaysAllow, which "
    "allows them anyway"
)

EQUIVALENT = {
    "guard.module: _TERMINAL_PHASES = ('Succeeded', 'Failed')  ->  _TERMINAL_PHASES = ('Failed', 'Succeeded')": (
        "it is used for membership tests only"
    ),
    "guard._counts_violations_correctly: "
    "if case.as_sent and case.sent is not None and (claimed == case.sent.num_pdb_violations):  ->  "
    "if case.as_sent and claimed == case.sent.num_pdb_violations:": (
        "as_sent without a sent candidate breaks NoVictims or NotAsSent, which are checked before"
    ),
    "pdb_recount.module: MULTIPLE_BUDGETS: BudgetShare = ('several', 0)  ->  "
    "MULTIPLE_BUDGETS: BudgetShare = ('several~', 0)": _ANY_NAME,
    "pdb_recount.module: MULTIPLE_BUDGETS: BudgetShare = ('several', 0)  ->  "
    "MULTIPLE_BUDGETS: BudgetShare = ('several', 1)": _ANY_NAME,
    "pdb_recount.module: MULTIPLE_BUDGETS: BudgetShare = ('several', 0)  ->  "
    "MULTIPLE_BUDGETS: BudgetShare = ('several', -1)": _ANY_NAME,
    "pdb_recount.module: MULTIPLE_BUDGETS: BudgetShare = ('several', 0)  ->  "
    "MULTIPLE_BUDGETS: BudgetShare = (0, 'several')": _ANY_NAME,
    "pdb_recount.PDBRecount._used_shares: "
    "return [('pods', index) for index in selecting if not self._is_disrupted(index, pod)]  ->  "
    "return [('pods~', index) for index in selecting if not self._is_disrupted(index, pod)]": _ANY_NAME,
    "pdb_recount.PDBRecount._used_shares: "
    "return [('pods' if pod.is_ready or self._counts_unready_pods(index) else 'unready', index)]  ->  "
    "return [('pods' if pod.is_ready or self._counts_unready_pods(index) else 'unready~', index)]": _ANY_NAME,
    "pdb_recount.PDBRecount._selecting: if key not in self._selecting_by_labels:  ->  if True:": (
        "it is computed again instead of read from the cache"
    ),
    "pdb_recount.PDBRecount._allowed: return 0  ->  return -1": _ALLOWS_NOTHING,
    "pdb_recount.PDBRecount._allowed: allowed = 0  ->  allowed = -1": _ALLOWS_NOTHING,
    "pdb_recount.PDBRecount._allowed: return sys.maxsize if is_allowed else 0  ->  "
    "return sys.maxsize if is_allowed else -1": (_ALLOWS_NOTHING),
    "pdb_recount.PDBRecount._allowed: is_healthy = "
    "status.desired_healthy > 0 and min(healthy, status.current_healthy) >= status.desired_healthy  ->  is_healthy = "
    "status.desired_healthy >= 0 and min(healthy, status.current_healthy) >= status.desired_healthy": (
        _ONLY_ALWAYS_ALLOW
    ),
    "pdb_recount.PDBRecount._allowed: is_healthy = "
    "status.desired_healthy > 0 and min(healthy, status.current_healthy) >= status.desired_healthy  ->  is_healthy = "
    "status.desired_healthy > -1 and min(healthy, status.current_healthy) >= status.desired_healthy": (
        _ONLY_ALWAYS_ALLOW
    ),
}
