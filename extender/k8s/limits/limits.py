"""Limits on what a tenant writes: the size of an object, the parts that are evaluated, and the work of an answer.

The cost model. A call costs time and memory in proportion to the bytes of the pod that was sent and to what exists in
the cluster: no field may cost more than its own length times the number of nodes that it can match.

- An incoming pod above the limits of size is refused with a reason: an API server would not have accepted it either.
- A running pod is never refused, because its requests count whatever else its spec contains. Its length costs once,
  when the pod arrives; calls about other pods pay nothing for what matches none of them.
- Caches and messages do not grow with the length of a name: longer texts are computed each time, and cut when shown.
- What would take too much work is left to kube-scheduler, with a text of this module as the reason.

Rule: the one place of such limits and of their texts. Work is counted in steps and never timed, so that the same call
always ends at the same step.
"""

from collections.abc import Iterable
from typing import Final

# --- sizes ----------------------------------------------------------------------------------------------------------

MAX_POD_BYTES: Final = 3 << 20
"""JSON bytes of an incoming pod: what an API server reads of a write request (MaxRequestBodyBytes, apiserver
pkg/server/config.go, v1.36: twice the 1.5 MiB that etcd stores, since JSON is longer than protobuf)."""

MAX_NODE_BYTES: Final = MAX_POD_BYTES
"""JSON bytes of a Node in a request that the cluster cache does not hold: the same limit of an API server."""

MAX_NAME_CHARACTERS: Final = 253
"""Characters of an object's name, and of the prefix of a qualified name (DNS1123SubdomainMaxLength, apimachinery)."""

MAX_LABEL_CHARACTERS: Final = 63
"""Characters of a label value, and of a qualified name behind its prefix (LabelValueMaxLength, apimachinery)."""

MAX_QUALIFIED_NAME_CHARACTERS: Final = MAX_NAME_CHARACTERS + len("/") + MAX_LABEL_CHARACTERS
"""Characters of a label key, a topology key or a resource name with its prefix (IsQualifiedName, apimachinery)."""

MAX_MESSAGE_CHARACTERS: Final = 1024
"""Characters of the message about one node: kube-scheduler cuts the note of an event there (NoteLengthLimit of
pkg/apis/core/validation; truncateMessage of pkg/scheduler/schedule_one.go, v1.36)."""

MAX_REASONS: Final = 64
"""Reasons listed for one node; further ones are only counted."""

# --- parts that are evaluated ---------------------------------------------------------------------------------------

MAX_HARD_CONSTRAINTS: Final = 256
"""Hard topology spread constraints of a pod, with topology keys that nodes have; each is a column over all nodes."""

TOO_MANY_HARD_CONSTRAINTS: Final = f"more than {MAX_HARD_CONSTRAINTS} hard topology spread constraints"

MAX_CLAIMS: Final = 256
"""Resource claims of a pod; each is checked against every node."""

TOO_MANY_CLAIMS: Final = f"more than {MAX_CLAIMS} claims of a pod"

MAX_DEVICE_CONTAINERS: Final = 1_000
"""Containers of a pod with extended resources of device classes; each init container is compared with later ones."""

TOO_MANY_DEVICE_CONTAINERS: Final = (
    f"more than {MAX_DEVICE_CONTAINERS} containers of a pod with extended resources of device classes"
)

MAX_EXPRESSION_CHARACTERS: Final = 20_000
"""Characters of a CEL expression; an API server accepts 10 KiB."""

TOO_LONG_EXPRESSION: Final = f"an expression of more than {MAX_EXPRESSION_CHARACTERS} characters"

MAX_EXPRESSION_LEVELS: Final = 90
"""Levels of an expression's tree; each takes a few frames of Python's stack to check, plan and evaluate."""

TOO_DEEP_EXPRESSION: Final = f"an expression nested more than {MAX_EXPRESSION_LEVELS} levels deep"

MAX_NAMED_GROUPS: Final = 10
"""Named groups of a regular expression: RE2 keeps where each matched for each way to match, whatever its options."""

TOO_MANY_NAMED_GROUPS: Final = f"a regular expression with more than {MAX_NAMED_GROUPS} named groups"


def max_expression_nodes(characters: int) -> int:
    """Return how many nodes the tree of an expression may have."""
    # Macros make at most 1.4 nodes per character, except optMap(), which doubles what it is called on. The 200 are for
    # three or four optMap() in a short expression. Compiling is charged by the character, so it needs this bound.
    return 200 + 2 * characters


def too_many_nodes(limit: int) -> str:
    return f"an expression of more than {limit} nodes"


# --- work -----------------------------------------------------------------------------------------------------------

MAX_CALL_STEPS: Final = 1_000_000
"""Steps for the claims of one pod on all nodes together, or for the devices of one class: about a second."""

MAX_EXPLANATION_STEPS: Final = 2_000_000
"""Steps to explain what becomes of a pod's claims on one node."""

MAX_CONSTANT_STEPS: Final = 1_000_000
"""Steps, and cel-go's cost, of a constant of an expression, which is evaluated once when it is compiled."""


def compile_steps(expressions: Iterable[str]) -> int:
    """Return the steps to compile selectors, each expression once."""
    return 10 * sum(map(len, set(expressions)))


class WorkLimitReached(Exception):
    """The budget is spent; the text says how large it was."""


class WorkBudget:
    """Steps that are left; a step takes about a microsecond."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self.left = steps

    def spend(self, steps: int) -> None:
        """Take steps from the budget; raises WorkLimitReached if fewer are left."""
        self.left -= steps
        if self.left < 0:
            raise WorkLimitReached(self.exceeded)

    @property
    def exceeded(self) -> str:
        """The reason to give where the budget was not enough."""
        return f"more work than {self._steps} steps"


def call_budget() -> WorkBudget:
    return WorkBudget(MAX_CALL_STEPS)


def explanation_budget() -> WorkBudget:
    return WorkBudget(MAX_EXPLANATION_STEPS)


def constant_budget() -> WorkBudget:
    return WorkBudget(MAX_CONSTANT_STEPS)
