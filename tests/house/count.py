"""Count: a number and the list of what it counts."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Count:
    """A number that a reader can check."""

    number: float
    items: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, items: list[str]) -> "Count":
        return cls(len(items), items)
