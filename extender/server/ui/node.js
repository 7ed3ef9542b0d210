// One node of a preemption: what became of its pods, and why. Loaded when it is opened.

import * as api from "./api.js";
import { add, alert, el, fact, name, replace, scrolling, table } from "./dom.js";
import { bars } from "./bars.js";
import { chain } from "./groups.js";
import { slices } from "./slices.js";
import { amount, count, criterion, outcomeLabel, OUTCOMES, resourcesOf, ROLES } from "./words.js";

const AFTER = { chosen: "after", beaten: "if chosen", ruledOut: "if chosen", rejected: "if chosen" };

/** Names a place for the node at once, and fills it when the service has told. */
export function nodeDetail(decision, summary) {
  const place = el("div", { class: "node", "data-node": summary.name, "aria-busy": "true" }, el("p", { class: "muted loading" }, "loading the pods of the node …"));
  api.node(decision.id, summary.name).then(
    (node) => replace(place, detail(decision, node)),
    (error) => replace(place, alert(error.message, " Close the node and open it again to try once more.")),
  ).finally(() => place.removeAttribute("aria-busy"));
  return place;
}

function detail(decision, node) {
  const pods = node.pods ?? [];
  return [
    said(decision, node),
    node.allocatable && Object.keys(node.allocatable).length ? bars(room(decision, node, pods)) : null,
    node.budgets?.length ? budgetsTable(node.budgets, "Disruption budgets that the victims charge") : null,
    podsTable(node, pods),
    node.nominated?.length ? nominated(node.nominated) : null,
  ];
}

function said(decision, node) {
  const meaning = OUTCOMES[node.outcome]?.[1];
  const loses = node.losesBy ? ` It loses by: ${criterion(node.losesBy).label} (${criterion(node.losesBy).better}).` : "";
  const emptied = node.emptied ? [`${node.emptied.plugin}: `, (node.emptied.reasons ?? []).join(", ")] : null;
  return el("dl", { class: "facts" },
    fact("Outcome", el("strong", {}, outcomeLabel(node.outcome)), meaning ? `: ${meaning}.` : ".", loses,
      node.offered === false ? " kube-scheduler did not offer it; the policies look at all nodes." : ""),
    fact("Why", node.why !== (node.emptied?.reasons ?? []).join(", ") ? node.why : null),
    fact("Now", chain(decision, node)),
    fact("If emptied", emptied),
    fact("Victims", node.chosenBy ? `found by: ${node.chosenBy}` : null),
    fact("Breaks", node.violations ? `${count(node.violations, "victim")} beyond what disruption budgets allow` : null));
}

/** The parts of the bars. */
function room(decision, node, pods) {
  const isHopeless = node.outcome === "noRoom" || node.outcome === "noVictims";
  const parts = {};
  const put = (part, requests) => {
    const own = (parts[part] ??= { pods: 0, amounts: {} });
    own.pods += 1;
    for (const [resource, value] of Object.entries({ ...requests, pods: 1 })) own.amounts[resource] = (own.amounts[resource] ?? 0) + value;
  };
  for (const pod of pods) put(roleOf(node, pod), pod.requests);
  for (const pod of node.nominated ?? []) put("nominated", pod.requests);
  put("preemptor", decision.incoming?.requests);
  const afterwards = isHopeless ? "if emptied" : AFTER[node.outcome] ?? "after";
  return { parts, allocatable: node.allocatable, gone: ["victim", "evictable"], come: ["preemptor"], afterwards };
}

/** Nobody is put back on a node on which not even emptying helps. */
const roleOf = (node, pod) => (node.outcome === "noRoom" && pod.role === "reprieved" ? "evictable" : pod.role);

const HEADINGS = ["Pod", "Role", "Priority", "Put back", "Started", "Budgets", "Why, and what else"];

function podsTable(node, pods) {
  if (!pods.length) return el("p", {}, "No pod runs there.");
  const resources = resourcesOf(...pods.map((pod) => pod.requests)).filter((one) => one === "cpu" || one === "memory");
  const body = el("tbody");
  const more = slices(body, pods, (pod) => podRow(node, pod, resources), "pods");
  const headings = [...HEADINGS.slice(0, 3), ...resources, ...HEADINGS.slice(3)];
  return el("div", { class: "pods" },
    scrolling(`Pods on ${node.name}`, el("table", {},
      el("caption", {}, `${count(pods.length, "pod")}, most important first`),
      el("thead", {}, el("tr", {}, headings.map((one) => el("th", { scope: "col", class: one === "Priority" || resources.includes(one) ? "number" : null }, one)))),
      body)),
    more.line);
}

function podRow(node, pod, resources) {
  const role = roleOf(node, pod);
  const notes = [
    ...(pod.protectedBy ?? []),
    pod.violating && "its loss would break a budget",
    pod.named && "kube-scheduler had chosen it as a victim",
    pod.leaving && "on its way out already",
  ].filter(Boolean);
  return el("tr", { class: `role-${role}` },
    el("th", { scope: "row" }, name(pod.key)),
    el("td", {}, el("span", { class: `tag role-tag role-tag-${role}`, title: ROLES[role]?.[1] ?? "" }, ROLES[role]?.[0] ?? role)),
    el("td", { class: "number" }, (pod.priority ?? 0).toLocaleString("en")),
    resources.map((resource) => el("td", { class: "number" }, amount(resource, pod.requests?.[resource] ?? 0))),
    el("td", {}, putBack(role, pod)),
    el("td", {}, pod.started ? pod.started.replace("T", " ").replace(/Z$/, "") : "not started"),
    el("td", {}, (pod.budgets ?? []).map((one, place) => [place ? ", " : null, name(one)])),
    el("td", {}, notes.join("; ")));
}

function putBack(role, pod) {
  if (pod.order === undefined || role === "evictable") return el("span", { class: "muted" }, "–");
  return `${pod.order}: ${role === "victim" ? "no room" : "stays"}`;
}

const nominated = (pods) => table("Nominated to the node, to be yielded to", ["Pod", "Priority", "Requests"],
  pods.map((pod) => [name(pod.key), pod.priority ?? 0, Object.entries(pod.requests ?? {}).map(([one, value]) => `${amount(one, value)} ${one}`).join(", ")]));

/** Disruption budgets: what they allowed, what the victims take of it, what is left. */
export function budgetsTable(budgets, caption) {
  const rows = budgets.map(({ name: own, allowed, charged }) => {
    const left = allowed - charged;
    return el("tr", {}, el("th", { scope: "row" }, name(own)), el("td", { class: "number" }, allowed), el("td", { class: "number" }, charged), el("td", { class: "number" }, left),
      el("td", { class: left < 0 ? "bad" : null }, left < 0 ? `✗ broken by ${-left}` : "✓ kept"));
  });
  const made = table(caption, ["Budget", "Allowed before", "Charged", "Left", ""], rows, { class: "budgets" });
  return add(el("div", { class: "scroll" }), made);
}
