"""The JSON schemas of GET /why, /pending and /simulate: reports, with what only the web page needs.

Rule: types only; `server.admin` fills them in.
"""

from extender.report.pod_schema import Diagnosis, DiagnosisStruct, PendingReport


class ExplainedPod(DiagnosisStruct, frozen=True, kw_only=True):
    """A diagnosis, and its facts as sentences: the page has no words of its own."""

    diagnosis: Diagnosis
    fact_sentences: dict[str, list[str]]
    """Node that is rejected -> what exactly rejects it."""


class SimulationsInFlight(DiagnosisStruct, frozen=True, kw_only=True):
    """How far the simulation has come that runs now; others wait for it."""

    in_flight: int
    """Number of simulations that run or wait."""
    tried: int
    """Number of its pods that were tried at least once, with both policies if two are compared."""
    pods: int
    """Number of its pods to try, which grows with the replacements of victims; 0 if it is not known, or not begun."""


class PendingList(DiagnosisStruct, frozen=True, kw_only=True):
    """The last report of the pending pods."""

    time: str | None
    """Time of the cluster that the report describes, UTC; null: the first one is being made."""
    age_seconds: float | None
    is_making: bool
    """True while a newer report is being made."""
    error: str
    """Why the last attempt failed; empty if it did not."""
    error_age_seconds: float | None
    """Time since it failed; null if it did not."""
    report: PendingReport | None
    """Null: see `time`, or the request knows it (`?known=`)."""
