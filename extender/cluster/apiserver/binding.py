"""Bind one pod to one node, and know afterwards whether that happened.

The Binding carries the pod's uid, so that the API server refuses it for another pod of the same name. Sent twice, it
does no harm: the second one gets a 409. What an answer leaves open is settled by asking for the pod itself:

    answer to the Binding       then
    2xx, a Status of Success    bound
    409                         ask for the pod; on no node: refused (it is being deleted, or has scheduling gates)
    429                         wait as told and send it again, as long as there is time; else ask for the pod
    408, 5xx, none, no Status   ask for the pod; on no node: send it once more
    anything else               refused

Mirrors DefaultBinder (kube-scheduler) and BindingREST (API server, pkg/registry/core/pod/storage), which answers 404
where there is no such pod and 409 for everything that forbids this one to be bound.

Rule: bound is said on the API server's word only: its Success, or the pod with this uid on this node.
"""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol
from urllib.parse import quote

import msgspec
from msgspec.json import Decoder

from extender.cluster.apiserver.client import Timeout
from extender.cluster.apiserver.stream import ApiError, ApiUnreachable
from extender.wire import BindRequest

MIN_CALL_SECONDS = 0.2
"""Seconds that must be left for another call: with less, no answer would be more likely than one."""

CALL_TIMEOUT_FRACTION = 2 / 3
"""What a call may take of the time that is left, so that some is left to ask what came of it."""

MIN_THROTTLED_WAIT_SECONDS = 1.0
"""Seconds to wait at least after a 429, whatever it says."""


class BindingApi(Protocol):
    """What is used of `ApiServer`. Both raise ApiError or ApiUnreachable."""

    def get(self, path: str, *, timeout: Timeout) -> bytes: ...

    def post(self, path: str, body: bytes, *, timeout: Timeout) -> bytes: ...


@dataclass(frozen=True, slots=True)
class BindResult:
    """What came of it, in the end."""

    outcome: Literal["bound", "refused", "unknown"]
    """`unknown`: nobody says that it is bound, but a Binding that was sent may have come, or come yet, into force."""
    error: str = ""
    """Why it is not bound; empty if it is."""
    tries: int = 0
    """Bindings sent."""


def bind(
    api: BindingApi,
    request: BindRequest,
    deadline: float,
    *,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> BindResult:
    """Bind the pod, within `deadline` seconds; blocks. Whatever the API server does is a result, not an exception."""
    problem = _bad_name(request)
    if problem:
        return BindResult("refused", problem)
    return _BindCall(api, request, clock() + deadline, clock, pause).run()


# --- names ----------------------------------------------------------------------------------------------------------

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_LABEL = re.compile(_LABEL)
_DNS_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_PLAIN = re.compile(r"[!-~]+")


def _bad_name(request: BindRequest) -> str:
    """Which of the names cannot be one, or "": none. `..` would lead to another path."""
    names = (
        ("PodNamespace", request.pod_namespace, _DNS_LABEL, 63),
        ("PodName", request.pod_name, _DNS_NAME, 253),
        ("PodUID", request.pod_uid, _PLAIN, 253),
        ("Node", request.node, _DNS_NAME, 253),
    )
    for key, name, pattern, longest in names:
        if len(name) > longest or not pattern.fullmatch(name):
            return f"{key}: not what Kubernetes allows there; nothing was sent to the API server"
    return ""


# --- what the API server says ---------------------------------------------------------------------------------------


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


_STATUS = Decoder(_Status)
_POD = Decoder(_Pod)


@dataclass(frozen=True, slots=True)
class _Inconclusive:
    """An answer that leaves open whether the pod is bound."""

    code: int
    """The HTTP status; 0: there was none."""
    reason: str
    wait: float = 0.0
    """Seconds before another try."""


def _is_success(body: bytes) -> bool:
    try:
        answer = _STATUS.decode(body)
    except (ValueError, RecursionError):
        return False
    return (answer.kind, answer.status) == ("Status", "Success")


class _BindCall:
    """One request on its way, until it has a result."""

    def __init__(
        self,
        api: BindingApi,
        request: BindRequest,
        ends: float,
        clock: Callable[[], float],
        pause: Callable[[float], None],
    ) -> None:
        self._api = api
        self._request = request
        self._ends = ends
        self._clock = clock
        self._sleep = pause
        self._pod = f"pod {request.pod_namespace}/{request.pod_name}"
        namespace, name = quote(request.pod_namespace, safe=""), quote(request.pod_name, safe="")
        self._path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        self._tries = 0

    def run(self) -> BindResult:
        if self._left() < MIN_CALL_SECONDS:
            return self._result("refused", "no time was left for a first try; nothing was sent to the API server")
        once_more = True
        while True:
            answer = self._create()
            if isinstance(answer, BindResult):
                return answer
            if answer.code == 429 and self._pause(answer.wait):
                continue
            found = self._look(answer.reason)
            if found is not None:
                return found
            if answer.code == 409 or not once_more or not self._pause(answer.wait):
                return self._unbound(answer)
            once_more = False

    def _create(self) -> BindResult | _Inconclusive:
        """Send the Binding."""
        self._tries += 1
        try:
            answer = self._api.post(f"{self._path}/binding", self._binding(), timeout=self._timeout())
        except ApiUnreachable as error:
            return _Inconclusive(0, f"no answer from the API server: {error}")
        except ApiError as error:
            if error.code in (408, 409, 429) or error.code >= 500:
                wait = max(error.retry_after or 0.0, MIN_THROTTLED_WAIT_SECONDS if error.code == 429 else 0.0)
                return _Inconclusive(error.code, _error_message(error), wait)
            return self._refused(error)
        if _is_success(answer):
            return self._result("bound")
        return _Inconclusive(0, "the answer to the binding does not say Success")

    def _look(self, reason: str) -> BindResult | None:
        """What the pod itself tells; None: it is this one, and on no node. `reason`: why it is asked for."""
        if self._left() < MIN_CALL_SECONDS:
            return self._unknown(reason, "no time was left to ask for the pod")
        try:
            pod = _POD.decode(self._api.get(self._path, timeout=self._timeout()))
        except ApiError as error:
            if error.code == 404:
                return self._result("refused", f"{self._pod} is not there any more")
            return self._unknown(reason, f"asked for the pod: {_error_message(error)}")
        except ApiUnreachable as error:
            return self._unknown(reason, f"asked for the pod: no answer: {error}")
        except (ValueError, RecursionError):
            return self._unknown(reason, "asked for the pod: the answer is no Pod")
        return self._judge(pod)

    def _judge(self, pod: _Pod) -> BindResult | None:
        wanted, node = self._request, pod.spec.node_name
        if pod.metadata.uid != wanted.pod_uid:
            return self._result("refused", f"{self._pod} is another one now, with another uid")
        if not node:
            return None
        if node != wanted.node:
            return self._result("refused", f"{self._pod} is bound to {node} already, not to {wanted.node}")
        return self._result("bound")

    # --- results ---

    def _result(self, outcome: Literal["bound", "refused", "unknown"], error: str = "") -> BindResult:
        return BindResult(outcome, error, self._tries)

    def _refused(self, error: ApiError) -> BindResult:
        if error.code == 404:
            return self._result("refused", f"{self._pod} is not there: {_error_message(error)}")
        if error.code == 403:
            needs = f"needed is the permission to create pods/binding in namespace {self._request.pod_namespace}"
            return self._result("refused", f"not allowed to bind {self._pod}, {needs}: {_error_message(error)}")
        return self._result("refused", f"{self._pod} was not bound to {self._request.node}: {_error_message(error)}")

    def _unbound(self, last: _Inconclusive) -> BindResult:
        """The pod is on no node, and there is no more to try."""
        if last.code == 409:
            return self._result("refused", f"{self._pod} cannot be bound to {self._request.node}: {last.reason}")
        return self._result("unknown", f"{self._pod} was on no node when last asked for: {last.reason}")

    def _unknown(self, reason: str, problem: str) -> BindResult:
        return self._result(
            "unknown", f"not known whether {self._pod} was bound to {self._request.node}: {reason}; {problem}"
        )

    # --- the call ---

    def _binding(self) -> bytes:
        wanted = self._request
        metadata = {"name": wanted.pod_name, "namespace": wanted.pod_namespace, "uid": wanted.pod_uid}
        target = {"apiVersion": "v1", "kind": "Node", "name": wanted.node}
        return msgspec.json.encode({"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target})

    # --- time ---

    def _left(self) -> float:
        return self._ends - self._clock()

    def _timeout(self) -> Timeout:
        """A share of the time left, a quarter of it to connect."""
        share = self._left() * CALL_TIMEOUT_FRACTION
        return share / 4, share * 3 / 4

    def _pause(self, seconds: float) -> bool:
        """Wait, if another call fits in after that."""
        if seconds + MIN_CALL_SECONDS > self._left():
            return False
        if seconds > 0:
            self._sleep(seconds)
        return True


def _error_message(error: ApiError) -> str:
    return f"the API server answered {error}"
