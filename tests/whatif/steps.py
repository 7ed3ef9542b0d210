"""Render the scheduling cycles of a simulation, for the tests to compare."""

from extender.report.simulation_schema import Simulation


def steps(result: Simulation) -> list[str]:
    """One line a cycle: `pod outcome node -victims`."""
    return [
        " ".join(
            [
                one.pod.removeprefix("default/"),
                one.outcome,
                *filter(None, (one.node or one.nominated_node,)),
                *(f"-{victim.pod.removeprefix('default/')}" for victim in one.victims),
            ]
        )
        for one in result.cycles
    ]
