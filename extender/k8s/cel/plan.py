"""Planner: compiles an expression into Python closures (interpreter/planner.go of cel-go).

Each closure takes the run and returns a value or raises CelError. It adds what cel-go's cost tracker counts to the
run's cost: one for a variable and for each field or key, the cost of a call, nothing for a constant.

Rule: constants are evaluated while planning where cel-go does so, and their errors are errors of the plan.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile
from math import ceil
from typing import Any, Final

from extender.k8s.cel.calls import Evaluate, both, call
from extender.k8s.cel.checker import Checked
from extender.k8s.cel.interpreter import (
    KEYS,
    LoopPlan,
    Qualifier,
    appended,
    bad_key,
    chained,
    held,
    is_plain,
    literal_path,
    loop_over,
    resolved,
)
from extender.k8s.cel.library import patterns
from extender.k8s.cel.syntax import Expr
from extender.k8s.cel.types import NAMED_TYPES, is_dyn, is_optional, name_of
from extender.k8s.cel.values import (
    NO_SUCH_OVERLOAD,
    Aborted,
    CelError,
    Optional,
    Run,
    StringMap,
    TypeValue,
    Uint,
    UnsupportedFeature,
    check_key,
    check_map_key,
    equal,
    size,
    written,
)
from extender.k8s.limits.limits import constant_budget

_LIST_COST: Final = 10
_MAP_COST: Final = 30
_CHAINED: Final = ("_[_]", "_?._", "_[?_]")
"""Functions that read a field or key."""
_CONVERSIONS: Final = frozenset(
    ("bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"),
)


class PlanError(Exception):
    """An error while planning, in cel-go's words ("program instantiation failed")."""


@dataclass(slots=True)
class Plan:
    """The closure of a node; `value` is set if the node is a constant."""

    evaluate: Evaluate
    constant: bool = False
    value: Any = None
    qualified: Evaluate | None = None
    """Closure of a variable, its fields and keys without the variable's own cost of one."""
    ternary: bool = False
    declared: bool = False
    """Whether the node is the declared variable."""

    @property
    def uncounted(self) -> Evaluate:
        return self.qualified or self.evaluate


def plan(root: Expr, checked: Checked) -> tuple[Evaluate, int, set[tuple[str, ...]]]:
    """Return (closure, number of slots for loop variables, literal paths of the declared variable that it reads).

    A path ends before the first key that is not a literal string. Raises PlanError or UnsupportedFeature.
    """
    planner = _Planner(checked)
    evaluate = planner.plan(root).evaluate
    return evaluate, planner.slots, planner.paths


def _constant(value: Any) -> Plan:
    return Plan(lambda _run: value, constant=True, value=value)


def _counted(evaluate: Evaluate, *, declared: bool = False) -> Plan:
    """Return the plan of a variable, which costs one besides its fields and keys."""

    def counted(run: Run) -> Any:
        run.cost += 1
        return evaluate(run)

    return Plan(counted, qualified=evaluate, declared=declared)


class _Planner:
    def __init__(self, checked: Checked) -> None:
        self.checked = checked
        self.environment = checked.environment
        self.of_1_37 = checked.environment.of_1_37
        # With a leading dot: a loop variable has the same name but is not meant (`Checked.names`).
        self.variable_names = (self.environment.variable, f".{self.environment.variable}")
        self.slots = 0
        self.scopes: list[dict[str, int]] = []
        self.starts: dict[int, Evaluate] = {}
        """Slot of a loop's result -> closure of its initial value."""
        self.growing: set[int] = set()
        """Slots of results of loops that only add to a list or a map."""
        self.paths: set[tuple[str, ...]] = set()
        self._kinds: dict[str, Callable[[Expr], Plan]] = {
            "literal": lambda node: _constant(node.value),
            "ident": self._attribute,
            "select": self._attribute,
            "call": self._call,
            "list": self._list,
            "map": self._map,
            "loop": self._loop,
        }
        self._operators: dict[str, Callable[[Expr], Plan]] = {
            **dict.fromkeys(_CHAINED, self._attribute),
            **dict.fromkeys(("_&&_", "_||_"), self._logical),
            **dict.fromkeys(("_==_", "_!=_"), self._equality),
            **dict.fromkeys(("or", "orValue"), self._alternative),
            "_?_:_": self._conditional,
            "@not_strictly_false": self._not_strictly_false,
        }

    def plan(self, node: Expr) -> Plan:
        return self._kinds[node.kind](node)

    # --- variables, fields and keys --------------------------------------------------------------------------------

    def _attribute(self, node: Expr) -> Plan:
        """Return the plan of a name, or of a chain of fields and keys."""
        name = self.checked.names.get(node.id)
        # 1. A type name is a constant.
        if name is not None and (self._is_type(name) or self.checked.types[node.id][0] == "type"):
            if name not in NAMED_TYPES:  # cel-go takes each name whose type is `type` for a type name
                raise PlanError(f"reference to undefined type: {name}")
            return _constant(TypeValue(name_of(NAMED_TYPES[name])))
        # 2. Split the chain into its root and its qualifiers.
        root, qualifiers = self._chain(node)
        if root.declared:
            literal = takewhile(lambda each: type(each.key) is str, qualifiers)
            self.paths.add(tuple(each.key for each in literal))
        if not qualifiers:
            if name is not None and self._may_be_optional(node):
                return Plan(resolved(root.evaluate), qualified=resolved(root.uncounted))
            return root
        # 3. Evaluate it.
        tested = qualifiers[-1].test_only
        if tested and root.ternary:
            raise UnsupportedFeature("has() of a ternary's field")  # its cost may wrap below zero
        literal_keys = sum(1 for _ in takewhile(is_plain, qualifiers[:3])) if root.declared else 0
        evaluate = chained(root.uncounted, qualifiers, tested=tested, literal=literal_keys)
        if tested:
            return Plan(evaluate, qualified=evaluate)
        if root.declared and len(qualifiers) <= 3 and all(map(is_plain, qualifiers)):
            get, keys = self.environment.fields[qualifiers[0].key].value, [each.key for each in qualifiers[1:]]
            return Plan(literal_path(get, keys, 1, evaluate), qualified=literal_path(get, keys, 0, evaluate))
        return _counted(evaluate)

    def _is_type(self, name: str) -> bool:
        return self._slot(name) is None and name not in self.variable_names

    def _may_be_optional(self, node: Expr) -> bool:
        kind = self.checked.types[node.id]
        return is_optional(kind) or is_dyn(kind)

    def _slot(self, name: str) -> int | None:
        """Return the slot of a loop variable; None if no loop declares the name."""
        return next((scope[name] for scope in reversed(self.scopes) if name in scope), None)

    def _chain(self, node: Expr) -> tuple[Plan, list[Qualifier]]:
        """Return the root of a chain of fields and keys, and its qualifiers."""
        name = self.checked.names.get(node.id)
        slot = None if name is None else self._slot(name)
        if slot is not None:
            return _counted(held(slot, self.starts.get(slot))), []
        if name is not None:
            return (self._variable() if name in self.variable_names else self.plan(node)), []
        if node.kind == "select" and node.operand is not None:
            root, qualifiers = self._links(node.operand)
            return root, [*qualifiers, Qualifier(node.name, test_only=node.test_only)]
        operand, key = node.args
        root, qualifiers = self._links(operand)
        optional, planned = node.name != "_[_]", self.plan(key)
        if planned.constant:
            if type(planned.value) is list:
                raise PlanError("invalid qualifier type: *types.baseList")
            if type(planned.value) not in KEYS:
                raise bad_key(planned.value, PlanError)
            return root, [*qualifiers, Qualifier(planned.value, optional=optional)]
        while operand.kind in ("select", "call") and operand.children():
            operand = operand.children()[0]
        if self.checked.names.get(operand.id, "").startswith("."):
            # The declared variable, in a loop whose variable has the same name: cel-go looks for the key's variables
            # outside all loops.
            raise UnsupportedFeature("a key behind a name with a leading dot that is a loop's variable, too")
        return root, [*qualifiers, Qualifier(None, planned.uncounted, optional=optional)]

    def _links(self, node: Expr) -> tuple[Plan, list[Qualifier]]:
        is_field = node.kind == "ident" or (node.kind == "select" and not node.test_only)
        is_key = node.kind == "call" and node.name in _CHAINED
        return self._chain(node) if is_field or is_key else (self.plan(node), [])

    def _variable(self) -> Plan:
        """Return the plan for the declared variable without a field access: a map of all its fields."""
        getters = {name: each.value for name, each in self.environment.fields.items()}
        return _counted(
            lambda run: StringMap((name, get(run.variable)) for name, get in getters.items()), declared=True
        )

    # --- calls -----------------------------------------------------------------------------------------------------

    def _call(self, node: Expr) -> Plan:
        name = node.name
        if name in self._operators:
            return self._operators[name](node)
        appended = self._appended(node)
        if appended is not None:
            return appended
        planned = [self.plan(each) for each in node.children()]
        overloads = self.checked.overloads[node.id]
        arguments = [each.evaluate for each in planned]
        # 1. `in` with a list of constants costs nothing: cel-go makes a set of it.
        if name == "@in" and planned[1].constant and type(planned[1].value) is list and len(overloads) == 1:
            found = _constant_membership(planned[0], planned[1].value)
            if found is not None:
                return found
        # 2. Constant patterns are compiled while planning; their errors are errors of the plan.
        pattern = planned[1].value if name in patterns.OF_CONSTANTS and planned[1].constant else None
        if type(pattern) is str:
            wrong = patterns.problem(pattern)
            if wrong:
                raise PlanError(wrong)
            of_constant = patterns.OF_CONSTANTS[name]
            return Plan(call(name, overloads, arguments, of_1_37=self.of_1_37, apply=of_constant))
        # 3. Conversions of constants are constants.
        evaluate = call(name, overloads, arguments, of_1_37=self.of_1_37)
        if name in _CONVERSIONS and len(planned) == 1 and planned[0].constant:
            return _constant(self._folded(evaluate))
        return Plan(evaluate)

    def _folded(self, evaluate: Evaluate) -> Any:
        """Evaluate a constant while planning; raises PlanError or UnsupportedFeature."""
        budget = constant_budget()
        try:
            return evaluate(Run(None, 0, budget, cost_limit=budget.left, of_1_37=self.of_1_37))
        except Aborted:
            raise UnsupportedFeature("a map of constants with keys at which kube-scheduler crashes") from None
        except CelError as error:
            raise PlanError(str(error)) from None

    def _appended(self, node: Expr) -> Plan | None:
        """Return the plan of a step that adds to a loop's own list or map; None for any other call.

        The list or map is changed in place as in cel-go: copying it each time would take quadratic time.
        """
        if node.name not in ("_+_", "cel.@mapInsert") or not node.args or node.args[0].kind != "ident":
            return None
        slot = self._slot(self.checked.names.get(node.args[0].id, ""))
        if slot is None or slot not in self.growing:
            return None
        return Plan(appended(held(slot, self.starts[slot]), [self.plan(each).evaluate for each in node.args[1:]]))

    def _logical(self, node: Expr) -> Plan:
        """Return the plan of && or ||: an error counts only if no term decides the result."""
        terms = [self.plan(each).evaluate for each in node.args]
        stop = node.name == "_||_"

        def evaluate(run: Run) -> bool:
            failed: CelError | None = None
            for term in terms:
                try:
                    value = term(run)
                except CelError as error:
                    failed = failed or error  # the first error counts, unless a later term decides
                    continue
                if type(value) is bool:
                    if value is stop:
                        return stop
                else:
                    failed = failed or CelError(NO_SUCH_OVERLOAD)
            if failed is not None:
                raise failed
            return not stop

        return Plan(evaluate)

    def _equality(self, node: Expr) -> Plan:
        one, other = (self.plan(each).evaluate for each in node.args)
        wanted = node.name == "_==_"

        def evaluate(run: Run) -> bool:
            left, right = both(run, one, other)
            if type(left) is str and type(right) is str:
                run.cost += ceil(min(len(left), len(right)) * 0.1)
                return bool(left == right) is wanted
            run.cost += 1 if hasattr(left, "type_name") else ceil(min(size(left), size(right)) * 0.1)
            found = equal(left, right, run)
            if found is None and wanted:
                raise CelError(NO_SUCH_OVERLOAD)
            return bool(found) is wanted

        return Plan(evaluate)

    def _alternative(self, node: Expr) -> Plan:
        one, other = (self.plan(each).evaluate for each in node.children())
        unwraps = node.name == "orValue"

        def evaluate(run: Run) -> Any:
            value = one(run)
            if type(value) is not Optional:
                if run.of_1_37:
                    raise CelError(NO_SUCH_OVERLOAD)
                return value
            if value.present:
                return value.value if unwraps else value
            return other(run)

        return Plan(evaluate)

    def _not_strictly_false(self, node: Expr) -> Plan:
        condition = self.plan(node.args[0]).evaluate

        def evaluate(run: Run) -> bool:
            run.cost += 1
            try:
                return condition(run) is not False
            except CelError:
                return True

        return Plan(evaluate)

    def _conditional(self, node: Expr) -> Plan:
        condition, yes, no = (self.plan(each) for each in node.args)
        test = condition.evaluate
        then, otherwise = yes.uncounted, no.uncounted  # a ternary is one attribute, whichever branch it takes

        def evaluate(run: Run) -> Any:
            value = test(run)
            if value is True:
                return then(run)
            if value is False:
                return otherwise(run)
            raise CelError(NO_SUCH_OVERLOAD)

        found = resolved(evaluate) if self._may_be_optional(node) else evaluate
        return Plan(found, qualified=found, ternary=True)

    # --- lists, maps and loops -------------------------------------------------------------------------------------

    def _list(self, node: Expr) -> Plan:
        planned = [self.plan(each) for each in node.args]
        optional = frozenset(node.optional)
        if all(each.constant for each in planned):
            if not optional:
                return _constant([each.value for each in planned])
            raise UnsupportedFeature("an optional element that is a constant")
        elements = [each.evaluate for each in planned]

        def evaluate(run: Run) -> list[Any]:
            run.cost += _LIST_COST
            if not optional:
                return [each(run) for each in elements]
            found = []
            for index, each in enumerate(elements):
                value = each(run)
                if index in optional:
                    if type(value) is not Optional:
                        raise _not_optional("list element", value)
                    if not value.present:
                        continue
                    value = value.value
                found.append(value)
            return found

        return Plan(evaluate)

    def _map(self, node: Expr) -> Plan:
        planned = [self.plan(each) for each in node.args]
        optional = frozenset(node.optional)
        entries = [
            (planned[index].evaluate, planned[index + 1].evaluate, index // 2 in optional)
            for index in range(0, len(planned), 2)
        ]

        def evaluate(run: Run) -> dict[Any, Any]:
            run.cost += _MAP_COST
            found: dict[Any, Any] = {}
            for key_of, value_of, may_lack in entries:
                key, value = key_of(run), value_of(run)
                check_map_key(key)
                if may_lack:
                    if type(value) is not Optional:
                        raise _not_optional(f"entry '{written(key)}'", value)
                    if not value.present:
                        found.pop(key, None)
                        continue
                    value = value.value
                found[key] = value
            return found

        # cel-go builds maps of constants while it plans, so errors of their keys are errors of the plan.
        if all(each.constant for each in planned) and not optional:
            return _constant(self._folded(evaluate))
        return Plan(evaluate)

    def _loop(self, node: Expr) -> Plan:
        loop = node.loop
        assert loop is not None
        # Planned before the loop's scopes open: its range and start cannot refer to its variables.
        range_plan, start = self.plan(node.args[0]), self.plan(node.args[1])
        result_slot, first, second = range(self.slots, self.slots + 3)
        self.slots += 3
        self.starts[result_slot] = start.evaluate
        if node.args[1].kind in ("list", "map") and not node.args[1].args:
            self.growing.add(result_slot)
            self.starts[result_slot] = (lambda _run: []) if node.args[1].kind == "list" else (lambda _run: {})
        self.scopes.append({loop.result_variable: result_slot})
        self.scopes.append({loop.variable: first, **({loop.variable2: second} if loop.variable2 else {})})
        condition, step = (self.plan(each).evaluate for each in node.args[2:4])
        self.scopes.pop()
        result = self.plan(node.args[4]).evaluate
        self.scopes.pop()
        # cel.bind() is a loop over an empty list.
        over = None if range_plan.constant and range_plan.value == [] else range_plan.evaluate
        slots = (result_slot, first, second)
        return Plan(loop_over(LoopPlan(over, slots, bool(loop.variable2), condition, step, result)))


def _not_optional(what: str, value: Any) -> CelError:
    return CelError(f"cannot initialize optional {what} from non-optional value {written(value)}")


def _constant_membership(item: Plan, within: list[Any]) -> Plan | None:
    """Return the plan of `in` with a list of constants, which costs nothing (maybeOptimizeSetMembership).

    None if cel-go makes no set of the list.
    """
    if not within:
        return _constant(False)
    kinds = {type(each) for each in within}
    if not kinds <= {str, int, Uint, float, bool} or (bool in kinds and len(kinds) > 1):
        return None
    values = frozenset(within)
    evaluate = item.evaluate

    def contained(run: Run) -> bool:
        value = evaluate(run)
        check_key(value)
        if type(value) is bool or bool in kinds:
            return type(value) is bool and bool in kinds and value in values
        try:
            return value in values
        except TypeError:  # a list or a map
            return False

    return Plan(contained)
