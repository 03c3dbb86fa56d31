"""The plans of a trial: the identities of each item's plans, and the shape of each plan by identity."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from octavo.postgres.plan_shape import Shape, shape_of


@dataclass(slots=True)
class Captured:
    """Collects plans. `texts` has the documents as PostgreSQL wrote them, by a name that identifies the run."""

    identities: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    shapes: dict[str, Shape] = field(default_factory=dict[str, Shape])
    texts: dict[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict[str, Sequence[Mapping[str, Any]]])

    def add(self, item: str, run: str, plans: Sequence[Mapping[str, Any]]) -> None:
        """Adds the plans of one run of an item. Raises OctavoError for an invalid plan."""
        if plans:
            self.texts[run] = plans
        mine = self.identities.setdefault(item, [])
        for plan in plans:
            shape = shape_of(plan)
            self.shapes.setdefault(shape.identity, shape)
            if shape.identity not in mine:
                mine.append(shape.identity)

    def facts(self) -> dict[str, Any]:
        """The plans for the trial's facts: `plans`, with several identities of an item in sorted order, not that of the
        runs, separated by a stroke; and `plan_shapes`."""
        plans = {item: "/".join(sorted(mine)) for item, mine in self.identities.items() if mine}
        shapes = {identity: shape.as_dict() for identity, shape in self.shapes.items()}
        return {"plans": plans, "plan_shapes": shapes} if plans else {}

    def output(self) -> str:
        """All documents, as JSON."""
        return json.dumps(self.texts, indent=1) + "\n"
