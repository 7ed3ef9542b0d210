"""Who may do what at the fake API server: tokens, RBAC, and kinds that the cluster does not have.

Rule: permissions are checked for every request; an open watch stays open.
"""

from tests.fakes import statuses
from tests.fakes.kinds import Target, resource_of
from tests.fakes.requests import Request
from tests.fakes.statuses import Refused

VERBS = ("list", "watch", "get", "bind", "create", "patch")


class Access:
    """Accepted tokens, withdrawn permissions and removed kinds."""

    def __init__(self) -> None:
        self.tokens: set[str] | None = None
        self.user = "system:serviceaccount:kube-system:extender"
        self._forbidden: set[tuple[str, str]] = set()
        self._removed: set[str] = set()

    def forbid(self, kind: str, *verbs: str) -> None:
        self._forbidden |= _pairs(kind, verbs)

    def allow(self, kind: str, *verbs: str) -> None:
        self._forbidden -= _pairs(kind, verbs)

    def remove(self, kind: str) -> None:
        self._removed.add(resource_of(kind).kind)

    def restore(self, kind: str) -> None:
        self._removed.discard(resource_of(kind).kind)

    def target(self, request: Request, has_certificate: bool) -> Target:
        """What the request is about; Refused if it must not be answered."""
        if not self._authenticated(request, has_certificate):
            raise Refused(statuses.failure(401))
        target = request.target
        if target is None or target.resource.kind in self._removed:
            raise Refused(statuses.no_such_resource())
        if (target.resource.kind, request.verb) in self._forbidden:
            verb = "create" if request.verb == "bind" else request.verb
            raise Refused(statuses.forbidden(self.user, verb, target))
        return target

    def _authenticated(self, request: Request, has_certificate: bool) -> bool:
        if self.tokens is None or has_certificate:
            return True
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and token in self.tokens


def _pairs(kind: str, verbs: tuple[str, ...]) -> set[tuple[str, str]]:
    unknown = set(verbs) - set(VERBS)
    if unknown:
        raise ValueError(f"no verbs of the fake API server: {', '.join(sorted(unknown))}")
    return {(resource_of(kind).kind, verb) for verb in verbs or VERBS}
