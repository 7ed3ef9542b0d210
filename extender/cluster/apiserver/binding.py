"""Bind a pod to a node through the API server; after an inconclusive response, read the pod to see if it is bound.

The Binding carries the pod's UID, so that the API server refuses it for another pod of the same name. Sending it twice
is safe: the second attempt gets a 409.

    response to the Binding     then
    2xx, a Status of Success    bound
    409                         read the pod; without a node: refused (it is terminating, or has scheduling gates)
    429                         wait for Retry-After and send it again while time is left; otherwise read the pod
    408, 5xx, none, no Status   read the pod; without a node: send it once more
    any other                   refused

Mirrors DefaultBinder (kube-scheduler). BindingREST (API server, pkg/registry/core/pod/storage) returns 404 for an
unknown pod and 409 for every reason that forbids the binding.

Rule: the result is `bound` only if the API server confirms it: a Success, or the pod with this UID on this node.
"""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol
from urllib.parse import quote

import msgspec

from extender.cluster.apiserver.client import Timeout
from extender.cluster.apiserver.stream import ApiError, ApiUnreachable
from extender.k8s.limits.limits import MAX_LABEL_CHARACTERS, MAX_NAME_CHARACTERS
from extender.wire import ExtenderBindingArgs

MIN_CALL_SECONDS = 0.2  # Minimum time left for another request: with less, a timeout is likelier than a response
CALL_TIMEOUT_FRACTION = 2 / 3  # Share of the time left for one request; the rest is for reading the pod afterwards
MIN_THROTTLED_WAIT_SECONDS = 1.0  # Minimum seconds to wait after a 429, whatever its Retry-After


class BindingApi(Protocol):
    """The requests of a binding, as ApiServer implements them. Both raise ApiError or ApiUnreachable."""

    def get(self, path: str, *, timeout: Timeout) -> bytes: ...

    def post(self, path: str, body: bytes, *, timeout: Timeout) -> bytes: ...


@dataclass(frozen=True, slots=True)
class BindResult:
    """The final result of a binding."""

    # `unknown`: the pod is not known to have a node, but a Binding that was sent may still take effect.
    outcome: Literal["bound", "refused", "unknown"]
    error: str = ""  # Reason why the pod is not bound; empty if it is
    tries: int = 0  # Number of Bindings sent


def bind(
    api: BindingApi,
    request: ExtenderBindingArgs,
    deadline: float,
    *,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> BindResult:
    """Bind the pod within `deadline` seconds; blocks. Every failure is a result, not an exception."""
    problem = _validate_names(request)
    if problem:
        return BindResult("refused", problem)
    return _BindCall(api, request, clock() + deadline, clock, pause).run()


# --- names ----------------------------------------------------------------------------------------------------------

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
DNS_LABEL = re.compile(_LABEL)
DNS_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_PLAIN = re.compile(r"[!-~]+")


def _validate_names(request: ExtenderBindingArgs) -> str:
    """Return an error for the first invalid name, or "": a name like `..` would change the URL path."""
    names = (
        ("PodNamespace", request.pod_namespace, DNS_LABEL, MAX_LABEL_CHARACTERS),
        ("PodName", request.pod_name, DNS_NAME, MAX_NAME_CHARACTERS),
        ("PodUID", request.pod_uid, _PLAIN, MAX_NAME_CHARACTERS),
        ("Node", request.node, DNS_NAME, MAX_NAME_CHARACTERS),
    )
    for key, name, pattern, max_length in names:
        if len(name) > max_length or not pattern.fullmatch(name):
            return f"{key}: not a valid name; nothing was sent to the API server"
    return ""


# --- the call -------------------------------------------------------------------------------------------------------


class _Status(msgspec.Struct):
    kind: str
    status: str


class _Metadata(msgspec.Struct):
    uid: str


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str | None = None


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec


@dataclass(frozen=True, slots=True)
class _Inconclusive:
    """A response that does not show whether the pod is bound."""

    code: int  # HTTP status; 0 without a response
    reason: str
    wait: float = 0.0  # Seconds to wait before a retry


@dataclass(slots=True)
class _BindCall:
    """One binding, from its first request to its result."""

    api: BindingApi
    request: ExtenderBindingArgs
    deadline: float
    clock: Callable[[], float]
    sleep: Callable[[float], None]
    tries: int = 0

    @property
    def pod(self) -> str:
        return f"pod {self.request.pod_namespace}/{self.request.pod_name}"

    @property
    def path(self) -> str:
        namespace, name = quote(self.request.pod_namespace, safe=""), quote(self.request.pod_name, safe="")
        return f"/api/v1/namespaces/{namespace}/pods/{name}"

    def run(self) -> BindResult:
        if self._left() < MIN_CALL_SECONDS:
            return self._result("refused", "no time left for a first attempt; nothing was sent to the API server")
        may_resend = True
        while True:
            # 1. Send the Binding; most responses are conclusive.
            answer = self._create()
            if isinstance(answer, BindResult):
                return answer
            # 2. Throttled: wait and send it again, as long as time is left.
            if answer.code == 429 and self._pause(answer.wait):
                continue
            # 3. Read the pod: an earlier Binding may have taken effect.
            found = self._read_pod(answer.reason)
            if found is not None:
                return found
            # 4. The pod has no node. A conflict is final; anything else is sent once more.
            if answer.code == 409:
                return self._result("refused", f"{self.pod} cannot be bound to {self.request.node}: {answer.reason}")
            if not may_resend or not self._pause(answer.wait):
                return self._result("unknown", f"{self.pod} had no node when last read: {answer.reason}")
            may_resend = False

    def _create(self) -> BindResult | _Inconclusive:
        self.tries += 1
        wanted = self.request
        metadata = {"name": wanted.pod_name, "namespace": wanted.pod_namespace, "uid": wanted.pod_uid}
        target = {"apiVersion": "v1", "kind": "Node", "name": wanted.node}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        try:
            body = self.api.post(f"{self.path}/binding", msgspec.json.encode(binding), timeout=self._timeout())
            answer = msgspec.json.decode(body, type=_Status)
        except ApiUnreachable as error:
            return _Inconclusive(0, f"no answer from the API server: {error}")
        except ApiError as error:
            if error.code in (408, 409, 429) or error.code >= 500:
                wait = max(error.retry_after or 0.0, MIN_THROTTLED_WAIT_SECONDS if error.code == 429 else 0.0)
                return _Inconclusive(error.code, f"the API server answered {error}", wait)
            return self._refused(error)
        except (ValueError, RecursionError):
            answer = None
        if answer is not None and (answer.kind, answer.status) == ("Status", "Success"):
            return self._result("bound")
        return _Inconclusive(0, "the response to the binding is not a Success status")

    def _read_pod(self, reason: str) -> BindResult | None:
        """Read the pod and return the result that it shows; None if it has no node yet.

        `reason`: why it is read, for messages.
        """
        if self._left() < MIN_CALL_SECONDS:
            return self._unknown(reason, "no time left to read the pod")
        try:
            pod = msgspec.json.decode(self.api.get(self.path, timeout=self._timeout()), type=_Pod)
        except ApiError as error:
            if error.code == 404:
                return self._result("refused", f"{self.pod} no longer exists")
            return self._unknown(reason, f"reading the pod failed: the API server answered {error}")
        except ApiUnreachable as error:
            return self._unknown(reason, f"reading the pod failed: no answer: {error}")
        except (ValueError, RecursionError):
            return self._unknown(reason, "reading the pod failed: the response is not a Pod")
        wanted, node = self.request, pod.spec.node_name
        if pod.metadata.uid != wanted.pod_uid:
            return self._result("refused", f"{self.pod} was replaced by a pod with another UID")
        if not node:
            return None
        if node != wanted.node:
            return self._result("refused", f"{self.pod} is bound to {node} already, not to {wanted.node}")
        return self._result("bound")

    def _result(self, outcome: Literal["bound", "refused", "unknown"], error: str = "") -> BindResult:
        return BindResult(outcome, error, self.tries)

    def _refused(self, error: ApiError) -> BindResult:
        answer = f"the API server answered {error}"
        if error.code == 404:
            return self._result("refused", f"{self.pod} does not exist: {answer}")
        if error.code == 403:
            needs = f"which requires permission to create pods/binding in namespace {self.request.pod_namespace}"
            return self._result("refused", f"not allowed to bind {self.pod}, {needs}: {answer}")
        return self._result("refused", f"{self.pod} was not bound to {self.request.node}: {answer}")

    def _unknown(self, reason: str, problem: str) -> BindResult:
        whether = f"not known whether {self.pod} was bound to {self.request.node}"
        return self._result("unknown", f"{whether}: {reason}; {problem}")

    # --- time ---

    def _left(self) -> float:
        return self.deadline - self.clock()

    def _timeout(self) -> Timeout:
        """Return the timeouts of one request: CALL_TIMEOUT_FRACTION of the time left, a quarter of it to connect."""
        share = self._left() * CALL_TIMEOUT_FRACTION
        return share / 4, share * 3 / 4

    def _pause(self, seconds: float) -> bool:
        """Wait; return False at once if no request fits into the time left afterwards."""
        if seconds + MIN_CALL_SECONDS > self._left():
            return False
        if seconds > 0:
            self.sleep(seconds)
        return True
