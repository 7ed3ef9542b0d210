"""What an object may cost: how large Kubernetes lets it be, and how long its names.

The cost model. A call costs time and memory in proportion to the bytes of the pod that was sent and to what exists in
the cluster: no field may cost more than its own length times the number of nodes that it can match.

- An incoming pod above these limits is refused with a reason: an API server would not have accepted it either.
- A running pod is never refused, because its requests count whatever else its spec contains. It may cost what it is
  long, once, when it arrives; calls about other pods cost nothing for what matches none of them.
- Caches and messages do not grow with the length of a name: longer texts are computed each time, and cut when shown.

Rule: numbers with the place in Kubernetes that they come from; nothing here checks them.
"""

from typing import Final

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
"""Characters of the message about one node: what kube-scheduler keeps of the note of an event (NoteLengthLimit of
pkg/apis/core/validation; truncateMessage of pkg/scheduler/schedule_one.go, v1.36)."""

MAX_REASONS: Final = 64
"""Reasons of one node that are kept; the number of the others follows them."""
