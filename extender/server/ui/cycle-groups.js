// Scheduling cycles that end alike, as one line with their number: 50 replicas of a Deployment are one sentence.

import { add, el, name } from "./dom.js";
import { slices } from "./slices.js";
import { count, joined } from "./words.js";

const GROUPS = 25;
const PODS = 50; // of one group
const EXAMPLES = 3;

/** All that a reader is told about a cycle, without the pod itself. */
const keyOf = (cycle) => JSON.stringify([cycle.outcome, cycle.message.replaceAll(cycle.pod, ""), cycle.vetoed, cycle.hint, cycle.notEvaluated, cycle.claims.length, cycle.deallocated, cycle.attempt > 1, cycle.victims.length > 0]);

/** Return a list of cycles, alike ones together; `item(cycle)`: the list item of one, `what(cycle)`: its outcome in words. */
export function cycleGroups(cycles, item, what) {
  const groups = [...Map.groupBy(cycles, keyOf).values()];
  const list = el("ol", { class: "cycles" });
  const more = slices(list, groups, (group) => (group.length === 1 ? item(group[0]) : together(group, item, what)), "outcomes", GROUPS);
  return [list, more.line];
}

function together(group, item, what) {
  const [first] = group;
  const nodes = new Set(group.map((one) => one.node).filter(Boolean));
  const details = el("details", { ontoggle: () => details.open && details.childElementCount === 1 && fill() },
    el("summary", {}, el("strong", {}, count(group.length, "pod")), ": ", el("strong", {}, what(first)),
      nodes.size ? [" on ", nodes.size === 1 ? name([...nodes][0]) : count(nodes.size, "node")] : null,
      el("span", { class: "group-why" }, joined(group.map((one) => name(one.pod)), EXAMPLES)),
      first.message ? el("span", { class: "message" }, first.message) : null));

  function fill() {
    const list = el("ol", { class: "cycles" });
    const more = slices(list, group, item, "pods", PODS);
    add(details, list, more.line);
  }
  return el("li", { class: `cycle-${first.outcome} together` }, details);
}
