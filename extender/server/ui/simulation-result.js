// The response of POST /simulate: the outcome of every pod, the evicted pods, and the nodes that change.

import { usageBars } from "./bars.js";
import { cycleGroups } from "./cycle-groups.js";
import { el, name, prose, scrolling } from "./dom.js";
import { scenarioResult } from "./scenario-result.js";
import { slices } from "./slices.js";
import { admissionSentences, claimAllocation, count, cycleOutcome, describeSource, joined, judgedBy } from "./words.js";

/** Return the result of one simulation, or of two side by side below a table of their differences. */
export function simulationResult(answer) {
  const first = [el("h2", { tabindex: "-1" }, "Result"), answer.sentence ? el("p", { class: "verdict" }, prose(answer.sentence)) : null];
  if (!answer.compared) return [first, simulation(answer, 3)];
  return [
    first,
    differences(answer),
    el("div", { class: "compared" }, answer.results.map((result, place) =>
      el("section", { "data-policy": answer.compared[place] }, el("h3", {}, "With ", policyName(answer.compared[place])), simulation(result, 4)))),
  ];
}

const policyName = (policy) => (policy === "configured" ? "the policies in effect" : policy);

function differences({ compared, differences: found = [] }) {
  if (!found.length) return el("p", { id: "differences" }, "Both policies give the same result for these pods.");
  const podOutcome = (one) => one === null
    ? "not in this simulation"
    : [el("strong", {}, cycleOutcome(one.outcome)), one.node ? [" on ", name(one.node)] : null,
        one.evicts?.length ? ["; evicts ", joinedNames(one.evicts)] : null,
        one.numPDBViolations ? `; ${count(one.numPDBViolations, "PDB violation")}` : null,
        one.vetoed ? ["; vetoed: ", one.vetoed] : null];
  const body = el("tbody");
  const row = (one) => el("tr", {}, el("th", { scope: "row" }, name(one.pod)), one.outcomes.map((each) => el("td", {}, podOutcome(each))));
  const more = slices(body, found, row, "pods", ROWS);
  return el("div", { id: "differences" },
    el("h3", {}, `${count(found.length, "pod")} with different outcomes`),
    scrolling("Differences", el("table", {}, el("thead", {}, el("tr", {}, ["Pod", ...compared.map(policyName)].map((one) => el("th", { scope: "col" }, one)))), body)), more.line);
}

function simulation(result, level) {
  const { cycles = [], summary = {}, evicted = [], notes = [] } = result;
  const heading = (text) => el(`h${level}`, {}, text);
  return [
    el("p", { class: "sum" }, [`${summary.scheduled ?? 0} scheduled`, `${summary.pending ?? 0} pending`, summary.skipped ? `${summary.skipped} skipped` : null,
      `${summary.evicted ?? 0} preempted`, summary.pdbViolations ? `${count(summary.pdbViolations, "PDB violation")}` : "no PDB violations"].filter(Boolean).join(" · ")),
    el("p", { class: "muted source" }, `${describeSource(result.source)}; judged by ${judgedBy(result)}`),
    result.source.versionHint ? el("p", { class: "muted" }, result.source.versionHint) : null,
    (result.admission ? admissionSentences(result.admission) : []).map((one) => el("p", { class: "muted" }, `admission: ${one}`)),
    notes.map((note) => el("p", { class: "muted" }, `note: ${note}`)),
    scenarioResult(result, heading),
    cycles.length ? [heading("Scheduling cycles"), cycleGroups(cycles, cycleItem, whatHappens)] : null,
    evicted.length ? [heading("Evicted by preemption"), victims(evicted)] : null,
    summary.nodes?.length ? [heading("Nodes that change"), nodes(summary.nodes)] : null,
  ];
}

const whatHappens = ({ outcome, victims }) => (outcome === "Nominated" ? `no feasible node; ${victims.length ? "evicts pods and is nominated" : "nominated"}` : cycleOutcome(outcome));

function cycleItem(cycle) {
  const evicts = cycle.victims?.length ? ["; evicts ", joinedNames(cycle.victims.map((one) => one.pod))] : null;
  const where = {
    Scheduled: () => ["scheduled on ", name(cycle.node ?? ""), cycle.feasible > 1 ? ` (${count(cycle.feasible, "feasible node")})` : null],
    Nominated: () => ["no feasible node", evicts, cycle.nominatedNode ? ["; nominated to ", name(cycle.nominatedNode)] : null],
  }[cycle.outcome]?.() ?? cycleOutcome(cycle.outcome);
  return el("li", { class: `cycle-${cycle.outcome}` },
    name(cycle.pod), cycle.attempt > 1 ? ` (attempt ${cycle.attempt})` : null, ": ", el("strong", {}, where),
    cycle.claims?.length ? el("ul", { class: "claims" }, cycle.claims.map(claimItem)) : null,
    cycle.deallocated ? el("p", {}, "Claim ", name(cycle.deallocated), " is deallocated: no pod uses it, and the pod does not fit.") : null,
    cycle.vetoed ? el("p", {}, "Preemption vetoed by the policies: ", cycle.vetoed) : null,
    cycle.message ? el("p", { class: "message" }, cycle.message) : null,
    cycle.hint ? el("p", { class: "message" }, cycle.hint) : null,
    cycle.notEvaluated?.length ? el("p", { class: "muted" }, `Not evaluated, left to kube-scheduler: ${cycle.notEvaluated.join(", ")}`) : null);
}

const ROWS = 25;
const CHANGED_NODES = 5;
const MAX_DEVICES = 8;
const MAX_NAMES = 5;

function claimItem({ claim, allocation, devices }) {
  const shown = joined(devices.map((one) => name(`${one.driver}/${one.pool}/${one.device}`)), MAX_DEVICES);
  return el("li", {}, "claim ", name(claim), ` ${claimAllocation(allocation)} `, devices.length ? shown : "no devices");
}

const joinedNames = (names) => joined(names.map((one) => name(one)), MAX_NAMES);

function victims(evicted) {
  const body = el("tbody");
  const more = slices(body, evicted, (one) => el("tr", {}, el("th", { scope: "row" }, name(one.pod)), el("td", {}, name(one.node)), el("td", { class: "number" }, one.priority.toLocaleString("en")),
    el("td", {}, (one.budgets ?? []).join(", ")), el("td", {}, name(one.preemptor))), "victims", ROWS);
  return [scrolling("Evicted pods", el("table", { class: "evicted" },
    el("thead", {}, el("tr", {}, ["Pod", "Node", "Priority", "Budgets", "Preemptor"].map((one) => el("th", { scope: "col", class: one === "Priority" ? "number" : null }, one)))), body)), more.line];
}

function nodes(changed) {
  const list = el("div", { class: "changed" });
  return [list, slices(list, changed, changedNode, "nodes", CHANGED_NODES).line];
}

const changedNode = (node) => el("section", { class: "changed-node", "data-node": node.name },
  el("p", { class: "node-name" }, name(node.name), node.state ? el("span", { class: "tag aside" }, node.state) : null), usageBars(node));
