"""Limits on tenants' input: the size of an object, the parts that are evaluated, and the work per answer.

The cost model: a call takes time and memory in proportion to the bytes of the sent pod and to the size of the cluster.
No field may cost more than its own length times the number of nodes that it can match.

- An incoming pod above a size limit is refused with a reason: an API server would not have accepted it either.
- A running pod is never refused, because its requests count whatever else its spec contains. Its length costs once,
  when the pod arrives; calls about other pods pay nothing for fields that match none of them.
- Caches and messages do not grow with the length of a name: long names are not cached, and are cut when shown.
- A decision that would take too much work is left to kube-scheduler, with a text of this module as the reason.

Rule: all such limits and their texts are here. Work is counted in steps and never timed, so the same call always ends
at the same step.
"""

from collections.abc import Iterable
from typing import Final

# --- sizes ----------------------------------------------------------------------------------------------------------

MAX_POD_BYTES: Final = 3 << 20
"""Maximum JSON bytes of an incoming pod: an API server's limit for a write request (MaxRequestBodyBytes, apiserver
pkg/server/config.go, v1.36: twice the 1.5 MiB that etcd stores, since JSON is longer than protobuf)."""

MAX_NODE_BYTES: Final = MAX_POD_BYTES  # JSON bytes of a sent Node that is not in the cluster cache
MAX_NAME_CHARACTERS: Final = 253  # Of an object's name, and of a qualified name's prefix (DNS1123SubdomainMaxLength)
MAX_LABEL_CHARACTERS: Final = 63  # Of a label value, and of a qualified name after its prefix (LabelValueMaxLength)

MAX_QUALIFIED_NAME_CHARACTERS: Final = MAX_NAME_CHARACTERS + len("/") + MAX_LABEL_CHARACTERS
"""Characters of a label key, a topology key or a resource name with its prefix (IsQualifiedName, apimachinery)."""

MAX_MESSAGE_CHARACTERS: Final = 1024
"""Maximum characters of the message about one node: kube-scheduler cuts the note of an event there (NoteLengthLimit of
pkg/apis/core/validation; truncateMessage of pkg/scheduler/schedule_one.go, v1.36)."""

MAX_REASONS: Final = 64  # Reasons listed for one node; further reasons are only counted

# --- parts that are evaluated ---------------------------------------------------------------------------------------

# Hard topology spread constraints of a pod whose topology keys exist on nodes; each is a column over all nodes.
MAX_HARD_CONSTRAINTS: Final = 256
TOO_MANY_HARD_CONSTRAINTS: Final = f"more than {MAX_HARD_CONSTRAINTS} hard topology spread constraints"

# Resource claims of a pod; each is checked against every node.
MAX_CLAIMS: Final = 256
TOO_MANY_CLAIMS: Final = f"more than {MAX_CLAIMS} claims of a pod"

# Containers of a pod with extended resources of device classes; each init container is compared with later ones.
MAX_DEVICE_CONTAINERS: Final = 1_000
TOO_MANY_DEVICE_CONTAINERS: Final = (
    f"more than {MAX_DEVICE_CONTAINERS} containers of a pod with extended resources of device classes"
)

# The text of a quantity; an API server writes at most 20 digits and a suffix.
MAX_QUANTITY_CHARACTERS: Final = 1000
TOO_LONG_QUANTITY: Final = f"at most {MAX_QUANTITY_CHARACTERS} are read"

# A CEL expression; an API server accepts 10 KiB.
MAX_EXPRESSION_CHARACTERS: Final = 20_000
TOO_LONG_EXPRESSION: Final = f"an expression of more than {MAX_EXPRESSION_CHARACTERS} characters"

# Levels of an expression's tree; each takes a few frames of Python's stack to check, plan and evaluate.
MAX_EXPRESSION_LEVELS: Final = 90
TOO_DEEP_EXPRESSION: Final = f"an expression nested more than {MAX_EXPRESSION_LEVELS} levels deep"

# Named groups of a regular expression: RE2 tracks their positions for every way to match, whatever its options.
MAX_NAMED_GROUPS: Final = 10
TOO_MANY_NAMED_GROUPS: Final = f"a regular expression with more than {MAX_NAMED_GROUPS} named groups"

# Numbers of any size are held exactly, so their size costs time and memory.
MAX_FORMAT_PRECISION: Final = 1000
TOO_HIGH_PRECISION: Final = f"format() with a precision above {MAX_FORMAT_PRECISION}"
MAX_QUANTITY_EXPONENT: Final = 100
TOO_LARGE_EXPONENT: Final = f"a quantity with an exponent beyond {MAX_QUANTITY_EXPONENT}"


def max_expression_nodes(characters: int) -> int:
    """Return the maximum number of nodes in the tree of an expression."""
    # Macros make at most 1.4 nodes per character, except optMap(), which doubles its target. The 200 are for
    # three or four optMap() in a short expression. Compiling is charged by the character, so it needs this bound.
    return 200 + 2 * characters


def too_many_nodes(limit: int) -> str:
    return f"an expression of more than {limit} nodes"


# --- work -----------------------------------------------------------------------------------------------------------

MAX_CALL_STEPS: Final = 1_000_000  # For the claims of a pod on all nodes, or the devices of a class: about a second
MAX_EXPLANATION_STEPS: Final = 2_000_000  # To explain the results for a pod's claims on one node
MAX_FACTS_STEPS: Final = 50_000  # To count what rejects the devices of all nodes, besides the node that is explained
MAX_CONSTANT_STEPS: Final = 1_000_000  # For a constant of an expression, evaluated once at compile time


def compile_steps(expressions: Iterable[str]) -> int:
    """Return the steps to compile selectors, each expression once."""
    return 10 * sum(map(len, set(expressions)))


class WorkLimitReached(Exception):
    """Raised when the budget is spent; the message has its size."""


class WorkBudget:
    """A budget of steps; a step takes about a microsecond."""

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
        """Reason to report when the budget is exceeded."""
        return f"more work than {self._steps} steps"


def call_budget() -> WorkBudget:
    return WorkBudget(MAX_CALL_STEPS)


def explanation_budget() -> WorkBudget:
    return WorkBudget(MAX_EXPLANATION_STEPS)


def facts_budget() -> WorkBudget:
    return WorkBudget(MAX_FACTS_STEPS)


def constant_budget() -> WorkBudget:
    return WorkBudget(MAX_CONSTANT_STEPS)
