"""Mutants that no test can tell from the right module, each with the reason.

Checked: one that a test does tell, or that is not made any more, is an error.
"""

_ANY_NAME = "what the charge is called is read nowhere, and no other charge has this name"
_NOT_LESS_THAN_NOTHING = "less than nothing left allows nothing as well"
_NOBODY_TO_ASK_FOR = (
    "where none need be healthy, pods that are not ready take of what the others leave over, and are asked for here "
    "only with AlwaysAllow, which lets them go anyway"
)

EQUIVALENT = {
    "guard.module: _TERMINAL_PHASES = ('Succeeded', 'Failed')  ->  _TERMINAL_PHASES = ('Failed', 'Succeeded')": (
        "it is only asked what is in it"
    ),
    "guard._violations_counted_right: "
    "if case.as_offered and case.offer is not None and (claimed == case.offer.num_pdb_violations):  ->  "
    "if case.as_offered and claimed == case.offer.num_pdb_violations:": (
        "as_offered without an offer breaks NoVictims or NotAsOffered, which are asked before"
    ),
    "pdb_recount.module: SEVERAL: Charge = ('several', 0)  ->  SEVERAL: Charge = ('several~', 0)": _ANY_NAME,
    "pdb_recount.module: SEVERAL: Charge = ('several', 0)  ->  SEVERAL: Charge = ('several', 1)": _ANY_NAME,
    "pdb_recount.module: SEVERAL: Charge = ('several', 0)  ->  SEVERAL: Charge = ('several', -1)": _ANY_NAME,
    "pdb_recount.module: SEVERAL: Charge = ('several', 0)  ->  SEVERAL: Charge = (0, 'several')": _ANY_NAME,
    "pdb_recount.Recount._charged: "
    "return [('pods', index) for index in selecting if not self._is_disrupted(index, pod)]  ->  "
    "return [('pods~', index) for index in selecting if not self._is_disrupted(index, pod)]": _ANY_NAME,
    "pdb_recount.Recount._charged: "
    "return [('pods' if pod.is_ready or self._shares(index) else 'unready', index)]  ->  "
    "return [('pods' if pod.is_ready or self._shares(index) else 'unready~', index)]": _ANY_NAME,
    "pdb_recount.Recount._selecting: if key not in self._known:  ->  if True:": "it is found again instead of remembered",
    "pdb_recount.Recount._allowed: return 0  ->  return -1": _NOT_LESS_THAN_NOTHING,
    "pdb_recount.Recount._allowed: allowed = 0  ->  allowed = -1": _NOT_LESS_THAN_NOTHING,
    "pdb_recount.Recount._allowed: return sys.maxsize if may_go else 0  ->  return sys.maxsize if may_go else -1": (
        _NOT_LESS_THAN_NOTHING
    ),
    "pdb_recount.Recount._allowed: is_healthy = "
    "status.desired_healthy > 0 and min(healthy, status.current_healthy) >= status.desired_healthy  ->  is_healthy = "
    "status.desired_healthy >= 0 and min(healthy, status.current_healthy) >= status.desired_healthy": (
        _NOBODY_TO_ASK_FOR
    ),
    "pdb_recount.Recount._allowed: is_healthy = "
    "status.desired_healthy > 0 and min(healthy, status.current_healthy) >= status.desired_healthy  ->  is_healthy = "
    "status.desired_healthy > -1 and min(healthy, status.current_healthy) >= status.desired_healthy": (
        _NOBODY_TO_ASK_FOR
    ),
}
