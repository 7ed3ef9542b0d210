"""What a filter plugin makes of one incoming pod: a static check, or additive columns that a dry run can change.

A static check depends on node and incoming pod alone. A constraint is a set of columns over the nodes: the room
that is left, and for every running pod the room that it takes; taking pods off and putting them back is addition.
Both answer for all nodes at once.

Rule: a check knows one plugin's columns and its texts; it knows nothing of other plugins or of preemption.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from extender.core.eviction_history import NO_HISTORY, EvictionHistory
from extender.core.framework.status import Code
from extender.core.profile import Profile
from extender.core.snapshot.arrays import BoolArray, IntArray
from extender.core.snapshot.importance import layout_of
from extender.core.snapshot.node_layout import NodeLayout, Placed
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.objects import Pod

CodeArray = npt.NDArray[np.uint8]
Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SchedulingContext:
    """The pod to be placed and everything that its checks may look at."""

    pod: Pod
    snapshot: Snapshot
    profile: Profile
    nominees: tuple[Pod, ...]
    """Nominated pods that this pod must yield to: equal or higher priority, not itself."""
    moment: EvictionHistory = NO_HISTORY

    @property
    def layout(self) -> NodeLayout:
        """The pods of every node in the profile's order of importance."""
        return layout_of(self.snapshot, self.profile.preemption)

    def nominated(self, columns: int, takes: Callable[[Pod, int], Sequence[int]]) -> IntArray | None:
        """[column, node]: the sums of what each nominee `takes` in every column on its node; None without nominees."""
        if not self.nominees:
            return None
        nominated = np.zeros((columns, len(self.snapshot.nodes)), np.int64)
        for pod in self.nominees:
            node = self.snapshot.node_row[pod.status.nominated_node_name]
            nominated[:, node] += takes(pod, node)
        return nominated


@dataclass(frozen=True, slots=True)
class StaticCheck:
    """Some nodes are out, whatever is evicted: a check with no columns."""

    plugin: str
    rejected: BoolArray
    """[node]."""
    why: tuple[str, ...]

    nominated: ClassVar[None] = None

    @property
    def room(self) -> IntArray:
        """[0, node]."""
        return np.empty((0, len(self.rejected)), np.int64)

    def codes(self, _room: IntArray) -> CodeArray:
        return np.where(self.rejected, np.uint8(Code.UNRESOLVABLE), np.uint8(Code.SUCCESS))

    def at(self, rows: Rows) -> Self:
        return replace(self, rejected=self.rejected[rows])

    def taken_off(self, _evictable: "Evictable") -> IntArray:
        return self.room

    def reasons(self, _room: IntArray, _row: int) -> tuple[str, ...]:
        return self.why


@dataclass(frozen=True, slots=True)
class Evictable:
    """Which pods of each node a preemptor may take off."""

    mask: BoolArray
    """[k, node]."""
    freed: IntArray | None = None
    """[resource, node]: what they take together of BASE_RESOURCES; None: nobody has added it up."""
    gives: bool = False
    """Does some pod take less than nothing of them?"""

    def at(self, rows: Rows) -> "Evictable":
        """The same for some nodes only."""
        freed = None if self.freed is None else self.freed.take(rows, axis=1)
        return Evictable(self.mask.take(rows, axis=1), freed, self.gives)


@dataclass(frozen=True)
class Constraint(ABC):
    """Columns of one plugin: whether a node fits depends on the room that is left in them."""

    plugin: str
    room: IntArray
    """[column, node]: what is left beside the incoming pod as the cluster stands; below zero it does not fit."""
    takes: Placed
    """[k, column, node]: the room that the node's pod of rank k takes."""
    nominated: IntArray | None
    """[column, node]: the room that nominated pods would take; None where there are none."""

    @cached_property
    def demand(self) -> IntArray:
        """`takes`, laid out."""
        return self.takes.laid_out()

    @abstractmethod
    def fits(self, room: IntArray) -> BoolArray:
        """[column, node] -> [node]."""

    def codes(self, room: IntArray) -> CodeArray:
        """[column, node] -> [node]."""
        return np.where(self.fits(room), np.uint8(Code.SUCCESS), np.uint8(Code.UNSCHEDULABLE))

    def kinds(self, room: IntArray, rows: Rows) -> IntArray:
        """[row]: a number below 2**32 for each set of reasons that a code can have; here a code has one."""
        return np.zeros(len(rows), np.int64)

    @abstractmethod
    def reasons(self, room: IntArray, row: int) -> tuple[str, ...]:
        """Why `row` does not fit into `room`; () if it fits."""

    def taken_off(self, evictable: Evictable) -> IntArray:
        """[column, node]: the room without the evictable pods, an array of its own."""
        return self.room + self.takes.sums(evictable.mask)

    def at(self, rows: Rows) -> Self:
        """The same for some nodes only."""
        return replace(
            self,
            room=self.room[:, rows],
            takes=self.takes.at(rows),
            nominated=None if self.nominated is None else self.nominated[:, rows],
        )


@dataclass(frozen=True)
class EveryColumn(Constraint):
    """There must be room in each column by itself; some nodes may be out whatever room there is."""

    def fits(self, room: IntArray) -> BoolArray:
        fits: BoolArray = np.logical_and.reduce(room >= 0, axis=0)
        return fits


@dataclass(frozen=True)
class Conflicts(EveryColumn):
    """Nobody may be in the way: room is minus the number of pods that are, in every column."""

    reason: str

    def reasons(self, room: IntArray, row: int) -> tuple[str, ...]:
        return (self.reason,) if (room[:, row] < 0).any() else ()


Check = StaticCheck | Constraint
