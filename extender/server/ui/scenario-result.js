// What the scenario of a simulation did: nodes and their pods, workloads, replacements, and how many more pods fit.

import { el, fact, name, scrolling } from "./dom.js";
import { slices } from "./slices.js";
import { count, evictionCause, joined } from "./words.js";

/** Return the sections of a result with a scenario or replacements; `heading` makes a heading of its level. */
export function scenarioResult({ scenario, replacements = [] }, heading) {
  const { added = [], cordoned = [], removed = [], drained = [], workloads = [], untilFull = null, gang = null } = scenario ?? {};
  const blocked = drained.flatMap((one) => one.blocked.map((pod) => ({ ...pod, node: one.node })));
  const lost = [...drained, ...removed].flatMap((one) => one.lost.map((pod) => [pod, one.node]));
  const excluded = workloads.flatMap((one) => Object.entries(one.excluded ?? {}).map(([node, why]) => [node, one.workload, why]));
  const touched = [
    ...drained.map((one) => [one.node, drainState(one), one.evicted, one.ignored, one.blocked, one.lost]),
    ...removed.map((one) => [one.node, "removed", one.deleted, [], [], one.lost]),
  ];
  return [
    scenario ? el("dl", { class: "facts scenario" },
      fact("Until full", untilFull && untilFullText(untilFull)),
      fact("All or nothing", gang && gangText(gang)),
      fact("Nodes added", names(added)), fact("Nodes cordoned", names(cordoned))) : null,
    untilFull?.nodes.length ? section("Where they fit", ["Node", "Pods"], untilFull.nodes, (one) => [name(one.node), one.pods], "nodes", heading) : null,
    touched.length ? section("Nodes drained or removed", ["Node", "State", "Evicted", "Ignored", "Blocked", "Lost"], touched,
      ([node, what, ...several]) => [name(node), what, ...several.map((one) => one.length)], "nodes", heading) : null,
    blocked.length ? section("Evictions that stay blocked", ["Pod", "Node", "Budgets", "Message"], blocked,
      (one) => [name(one.pod), name(one.node), names(one.budgets), one.message], "pods", heading) : null,
    lost.length ? section("Pods that do not come back", ["Pod", "Node"], lost, (one) => one.map((each) => name(each)), "pods", heading) : null,
    workloads.length ? section("Workloads", ["Workload", "Existing", "Created", "Waiting", "Refused", "Message"], workloads,
      (one) => [name(one.workload), one.existing, one.created.length, one.waiting.length, one.refused, one.refusal], "workloads", heading) : null,
    excluded.length ? section("Nodes without a pod of a DaemonSet", ["Node", "Workload", "Reason"], excluded,
      ([node, workload, reason]) => [name(node), name(workload), reason], "nodes", heading) : null,
    replacements.length ? section("Replacements", ["Replacement", "Of", "Cause", "From", "To"], replacements,
      (one) => [name(one.pod), one.of === one.pod ? "the same name" : name(one.of), evictionCause(one.cause), name(one.oldNode), one.node ? name(one.node) : el("span", { class: "bad" }, "stays pending")], "pods", heading) : null,
  ];
}

const drainState = ({ blocked }) => (blocked.length ? "draining" : "drained");

const MAX_NAMES = 8;

const names = (several) => joined(several.map((one) => name(one)), MAX_NAMES);

function untilFullText({ pod, fits, limitReached, next, refusal }) {
  const found = [el("strong", {}, `${fits.toLocaleString("en")} more`), " of ", name(pod), fits === 1 ? " fits" : " fit"];
  return limitReached ? [found, ": the limit of a simulation was reached, and more may fit"] : [found, next?.message || refusal ? ["; the next one: ", next?.message || refusal] : null];
}

function gangText({ scheduled, pods, message }) {
  if (!pods) return message;
  if (scheduled) return `all ${count(pods, "pod")} are scheduled`;
  return [el("strong", {}, `none of ${count(pods, "pod")} is scheduled`), message ? `: ${message}` : null];
}

/** Return a heading and a table; numbers are aligned to the right, and the first cell of a row is its header. */
function section(title, columns, items, cells, noun, heading) {
  const body = el("tbody");
  const row = (item) => el("tr", {}, cells(item).map((content, place) =>
    place ? el("td", { class: typeof content === "number" ? "number" : null }, content) : el("th", { scope: "row" }, content)));
  const numbers = cells(items[0]).map((content) => typeof content === "number");
  const more = slices(body, items, row, noun, 25);
  return [heading(title), scrolling(title, el("table", { class: "scenario-table" },
    el("thead", {}, el("tr", {}, columns.map((one, place) => el("th", { scope: "col", class: numbers[place] ? "number" : null }, one)))), body)), more.line];
}
