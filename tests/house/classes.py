"""Count result classes, and the fields of a class."""

import ast

from tests.house.count import Count
from tests.house.tree import Function, Tree, is_in, last_name

RESULTS = (
    "report",
    "whatif",
    "core.record",
    "core.recorded_devices",
    "core.scheduling_cycle",
    "cluster.list.pod_history",
    "server.observability.audit",  # at 44713b1: the audit lines
    "core.explain",  # at 44713b1: explain, diagnosis, simulator
    "core.diagnosis",
    "core.simulator",
)
"""Packages and modules with what people read, and with what was made of explain, diagnosis and simulator since."""

MAX_FIELDS = 12


def result_structs(tree: Tree) -> Count:
    """Count the structs of RESULTS that become JSON of ours: what derives from msgspec.Struct there and has fields.

    Manifests of Kubernetes (subclasses of k8s.objects.Value and Object) are no results.
    """
    classes = [(module, name, node) for module, name, node in tree.classes() if is_in(module.name, RESULTS)]
    structs = {"Struct"}
    for _ in range(3):  # a base class may stand in a module that is read later
        structs |= {node.name for _, _, node in classes if any(last_name(base) in structs for base in node.bases)}
    return Count.of(
        [module.at(node, name) for module, name, node in classes if node.name in structs and fields_of(node)]
    )


def result_classes(tree: Tree) -> Count:
    """Count all classes of RESULTS that only hold values: dataclasses and tuples, too."""
    found = result_structs(tree).items
    for module, name, node in tree.classes():
        decorators = [one.func if isinstance(one, ast.Call) else one for one in node.decorator_list]
        holds_values = any(last_name(one) == "dataclass" for one in decorators)
        holds_values |= any(last_name(base) in ("NamedTuple", "TypedDict", "BaseModel") for base in node.bases)
        if is_in(module.name, RESULTS) and holds_values:
            found.append(module.at(node, name))
    return Count.of(found)


def fields_of(node: ast.ClassDef) -> set[str]:
    """Return the annotated names of a class, and the attributes that __init__ and __post_init__ assign."""
    found = {
        one.target.id
        for one in node.body
        if isinstance(one, ast.AnnAssign)
        and isinstance(one.target, ast.Name)
        and last_name(one.annotation) != "ClassVar"
    }
    for method in node.body:
        if isinstance(method, Function) and method.name in ("__init__", "__post_init__"):
            found |= {
                one.attr
                for one in ast.walk(method)
                if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store) and last_name(one.value) == "self"
            }
    return found


def wide_classes(tree: Tree) -> Count:
    """Count classes with more than MAX_FIELDS fields; inherited ones aside."""
    found = {f"{module.name}.{name}": len(fields_of(node)) for module, name, node in tree.classes()}
    return Count.of([f"{name}: {size}" for name, size in sorted(found.items()) if size > MAX_FIELDS])
