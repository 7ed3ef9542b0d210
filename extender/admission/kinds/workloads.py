"""What depends on several fields of a workload: template and selector, claims of a StatefulSet, numbers of a Job.

Mirrors defaults.go and validation.go of pkg/apis/{apps,batch,core} and registry/batch/job/strategy.go (v1.37).

Divergences:

- Labels and selector of a Job without `manualSelector` are not filled in: whoever simulates its controller labels its
  pods. What is given must agree with them.
- Update strategies, failure and success policies are checked little or not at all, because nothing reads them.
- The template of a controller of a cluster file may be left out.
- A CronJob's schedule may be left out; of a schedule only the number of fields is checked.
"""

from collections.abc import Mapping

import msgspec

from extender.admission.checks import one_of
from extender.admission.names import dns_label
from extender.admission.request import Manifest, Request
from extender.k8s.objects import LabelSelector
from extender.k8s.selectors import SelectorError, compile_label_selector

_MISMATCH = "`selector` does not match template `labels`"
_JOB_NAMES = ("batch.kubernetes.io/job-name", "job-name")
_JOB_UIDS = ("batch.kubernetes.io/controller-uid", "controller-uid")
_MAX_INDEXED_PARALLELISM = 100_000


def _labels(workload: Manifest) -> dict[str, str]:
    """Return the labels of the template."""
    return (workload["spec"]["template"].get("metadata") or {}).get("labels") or {}


# --- defaults ---------------------------------------------------------------------------------------------------------


def fill_labels(workload: Manifest) -> None:
    """Take the labels of the template where the workload has none (SetDefaults_ReplicationController and _Job)."""
    if labels := _labels(workload):
        metadata = workload.setdefault("metadata", {})
        metadata["labels"] = metadata.get("labels") or dict(labels)


def fill_controller(controller: Manifest) -> None:
    fill_labels(controller)
    controller["spec"]["selector"] = controller["spec"].get("selector") or dict(_labels(controller))


def fill_job(job: Manifest) -> None:
    """Fill in a Job (SetDefaults_Job); the template in a CronJob stays as it is."""
    fill_labels(job)
    spec = job["spec"]
    if "parallelism" not in spec:
        spec.setdefault("completions", 1)  # beside a parallelism, an unset number of completions has a meaning
    job["spec"] = {"parallelism": 1, "completionMode": "NonIndexed", "suspend": False, **spec}


def with_claim_volumes(stateful_set: Manifest) -> Manifest:
    """Return the StatefulSet with the pod template that its controller uses.

    The controller sets the host name, and replaces volumes that have the name of a claim template.
    """
    spec, template = stateful_set["spec"], stateful_set["spec"]["template"]
    names = {(one.get("metadata") or {}).get("name", "") for one in spec.get("volumeClaimTemplates") or ()}
    pod = {key: value for key, value in template["spec"].items() if key not in ("hostname", "subdomain")}
    pod["volumes"] = [one for one in pod.get("volumes") or () if one.get("name") not in names]
    pod["volumes"] += [{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in sorted(names)]
    return {**stateful_set, "spec": {**spec, "template": {**template, "spec": pod}}}


# --- checks -----------------------------------------------------------------------------------------------------------


def endless(request: Request, _: str, value: Manifest) -> None:
    """Check that pods of the template never end by themselves."""
    place, spec = "spec.template.spec", value["spec"]["template"]["spec"]
    one_of(request, f"{place}.restartPolicy", spec["restartPolicy"], "Always")
    if "activeDeadlineSeconds" in spec:
        detail = f"activeDeadlineSeconds in {request.kind} is not Supported"
        request.findings.forbid(f"{place}.activeDeadlineSeconds", detail)


def workload(request: Request, _: str, value: Manifest) -> None:
    """Check the selector, and that it selects the template's pods."""
    findings, selector = request.findings, value["spec"].get("selector")
    if request.kind == "ReplicationController":  # whose selector is a set of labels
        selector = {"matchLabels": selector} if selector else None
    if selector is None:
        findings.required("spec.selector")
    elif not selector.get("matchLabels") and not selector.get("matchExpressions") and request.kind != "Job":
        findings.invalid_value("spec.selector", selector, f"empty selector is invalid for {request.kind.lower()}")
    # The template of a controller that exists may be left out: decisions read its selector only.
    is_bare = request.is_state and not value["spec"]["template"]["spec"].get("containers")
    if not is_bare and not _matches(selector, _labels(value)):
        findings.invalid_value("spec.template.metadata.labels", _labels(value), _MISMATCH)


def _matches(selector: Manifest | None, labels: Mapping[str, str]) -> bool:
    """Return whether the selector matches the labels; True for an invalid one, which is reported by itself."""
    try:
        return compile_label_selector(msgspec.convert(selector, LabelSelector | None)).matches(labels)
    except (SelectorError, msgspec.ValidationError):
        return True


def job_spec(request: Request, path: str, value: Manifest) -> None:
    findings = request.findings
    if value["template"]["spec"]["restartPolicy"] == "Always":
        findings.required(f"{path}.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"')
    if value.get("completionMode") == "Indexed":
        if value.get("completions") is None:
            findings.required(f"{path}.completions", "when completion mode is Indexed")
        if value.get("parallelism", 1) > _MAX_INDEXED_PARALLELISM:
            detail = f"must be less than or equal to {_MAX_INDEXED_PARALLELISM} when completion mode is Indexed"
            findings.invalid_value(f"{path}.parallelism", value["parallelism"], detail)


def job(request: Request, path: str, value: Manifest) -> None:
    findings, spec, name = request.findings, value["spec"], value["metadata"].get("name", "")
    if spec["completionMode"] == "Indexed" and dns_label(host := f"{name}-{max(spec.get('completions') or 1, 1) - 1}"):
        findings.invalid_value("metadata.name", name, f"will not able to create pod with invalid DNS label: {host}")
    if spec.get("manualSelector"):
        workload(request, path, value)
        return
    labels, selector = _labels(value), spec.get("selector")
    if any(labels.get(key, name) != name for key in _JOB_NAMES) or not labels.keys().isdisjoint(_JOB_UIDS):
        findings.invalid_value("spec.template.metadata.labels", labels, "must have the generated values")
    if selector is not None and not _matches(selector, dict.fromkeys(_JOB_NAMES, name)):
        findings.invalid_value("spec.selector", selector, "`selector` not auto-generated")


def job_template(request: Request, path: str, value: Manifest) -> None:
    for field in ("selector", "manualSelector"):
        if value["spec"].get(field):
            request.findings.invalid_value(f"{path}.spec.{field}", value["spec"][field], "will be auto-generated")
