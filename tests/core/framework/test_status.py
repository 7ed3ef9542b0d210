"""Reasons and messages of a node are bounded, whatever names they contain."""

from extender.core.framework.status import Code, PreFilterResult, Status
from extender.k8s.limits.limits import MAX_MESSAGE_CHARACTERS, MAX_REASONS


def test_a_status_of_usual_length_keeps_its_reasons():
    reasons = tuple(f"Insufficient example.com/gpu-{nth}" for nth in range(20))
    status = Status(Code.UNSCHEDULABLE, "NodeResourcesFit", reasons)
    assert status.reasons == reasons
    assert status.message == ", ".join(reasons)


def test_H1_a_status_keeps_a_limited_number_of_reasons_and_says_how_many_more_there_are():
    status = Status(Code.UNSCHEDULABLE, "NodeResourcesFit", tuple(map(str, range(4000))))
    assert status.reasons == (*map(str, range(MAX_REASONS)), "3936 more reasons")


def test_H1_a_message_has_at_most_the_length_of_an_event_of_kube_scheduler():
    long = 'persistentvolumeclaim "' + "c" * 10**6 + '" not found'
    status = PreFilterResult.rejecting("VolumeBinding", long).status
    assert status is not None
    assert len(status.message) == len(status.reasons[0]) == MAX_MESSAGE_CHARACTERS
    assert status.message.startswith('persistentvolumeclaim "ccc')
    assert status.message.endswith("ccc ...")
