// One node of a preemption: the role of every pod on it, and why. Loaded when the node is opened.

import * as api from "./api.js";
import { alert, el, fact, name, replace, scrolling, table } from "./dom.js";
import { bars } from "./bars.js";
import { claims } from "./claims.js";
import { filterChain } from "./filter-chain.js";
import { slices } from "./slices.js";
import { relative } from "./times.js";
import { amount, count, criterion, outcomeOf, resourcesOf, ROLES } from "./words.js";

/** Return an element for the node at once, and fill it when the response arrives. */
export function nodeDetail(decision, summary) {
  const place = el("div", { class: "node", "data-node": summary.name, "aria-busy": "true" }, el("p", { class: "muted loading" }, "loading the node …"));
  api.node(decision.id, summary.name).then(
    (node) => replace(place, detail(decision, node)),
    (error) => replace(place, alert(error.message, " Close and reopen the node to retry.")),
  ).finally(() => place.removeAttribute("aria-busy"));
  return place;
}

function detail(decision, node) {
  if (decision.verb === "filter") return claims(node) ?? el("p", {}, "The pod has no resource claims.");
  return [facts(decision, node), nodeTables(decision, node)];
}

/** Return what is on the node: claims, requests before and after, budgets and pods. */
export function nodeTables(decision, node) {
  const pods = node.pods ?? [];
  return [
    claims(node),
    node.allocatable && Object.keys(node.allocatable).length ? bars(requestsByRole(decision, node, pods)) : null,
    node.budgets?.length ? budgetsTable(node.budgets, "Disruption budgets of the victims") : null,
    podsTable(node, pods),
    node.nominated?.length ? nominatedPods(node.nominated) : null,
  ];
}

function facts(decision, node) {
  const { label, meaning } = outcomeOf(node.outcome);
  const loses = node.losesBy ? ` Outranked by: ${criterion(node.losesBy).label} (${criterion(node.losesBy).better}).` : "";
  const emptied = node.emptied ? [`${node.emptied.plugin}: `, (node.emptied.reasons ?? []).join(", ")] : null;
  return el("dl", { class: "facts" },
    fact("Outcome", el("strong", {}, label), meaning ? `: ${meaning}.` : ".", loses,
      node.sent === false ? " kube-scheduler did not send this candidate; the policies consider all nodes." : ""),
    fact("Why", node.why !== (node.emptied?.reasons ?? []).join(", ") ? node.why : null),
    fact("Without evictions", filterChain(decision, node)),
    fact("Because", node.factSentences ? el("ul", { class: "plain" }, node.factSentences.map((one) => el("li", {}, name(one)))) : null),
    fact("With all potential victims evicted", emptied),
    fact("Victims", node.chosenBy ? `selected by: ${node.chosenBy}` : null),
    fact("PDB violations", node.violations ? `${count(node.violations, "victim")} more than disruption budgets allow` : null));
}

/** Sum the requests of the pods by role, as arguments of `bars`. */
function requestsByRole(decision, node, pods) {
  const parts = {};
  const put = (part, requests) => {
    const own = (parts[part] ??= { pods: 0, amounts: {} });
    own.pods += 1;
    for (const [resource, value] of Object.entries({ ...requests, pods: 1 })) own.amounts[resource] = (own.amounts[resource] ?? 0) + value;
  };
  for (const pod of pods) put(roleOf(node, pod), pod.requests);
  for (const pod of node.nominated ?? []) put("nominated", pod.requests);
  put("preemptor", decision.incoming?.requests);
  return { parts, allocatable: node.allocatable, removed: ["victim", "evictable"], added: ["preemptor"], afterwards: outcomeOf(node.outcome).afterwards };
}

/** No pod is reprieved on a node that cannot take the preemptor even with all potential victims evicted. */
const roleOf = (node, pod) => (node.outcome === "insufficientAfterPreemption" && pod.role === "reprieved" ? "evictable" : pod.role);

const HEADINGS = ["Pod", "Role", "Priority", "Reprieve", "Started", "Budgets", "Notes"];

function podsTable(node, pods) {
  if (!pods.length) return el("p", {}, "The node runs no pods.");
  const resources = resourcesOf(...pods.map((pod) => pod.requests)).filter((one) => one === "cpu" || one === "memory");
  const body = el("tbody");
  const more = slices(body, pods, (pod) => podRow(node, pod, resources), "pods", 25);
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
    pod.violating && "its eviction would violate a budget",
    pod.named && "kube-scheduler selected it as a victim",
    pod.terminating && "terminating",
  ].filter(Boolean);
  return el("tr", { class: `role-${role}` },
    el("th", { scope: "row" }, name(pod.key)),
    el("td", {}, el("span", { class: `tag role-tag role-tag-${role}`, title: ROLES[role]?.meaning ?? "" }, ROLES[role]?.label ?? role)),
    el("td", { class: "number" }, (pod.priority ?? 0).toLocaleString("en")),
    resources.map((resource) => el("td", { class: "number" }, amount(resource, pod.requests?.[resource] ?? 0))),
    el("td", {}, reprieve(role, pod)),
    el("td", {}, pod.started ? relative(pod.started) : "not started"),
    el("td", {}, (pod.budgets ?? []).map((one, place) => [place ? ", " : null, name(one)])),
    el("td", {}, notes.join("; ")));
}

function reprieve(role, pod) {
  if (pod.order === undefined || role === "evictable") return el("span", { class: "muted" }, "–");
  return `${pod.order}: ${role === "victim" ? "does not fit" : "reprieved"}`;
}

const nominatedPods = (pods) => table("Pods nominated to this node, counted as if they ran here", ["Pod", "Priority", "Requests"],
  pods.map((pod) => [name(pod.key), pod.priority ?? 0, Object.entries(pod.requests ?? {}).map(([one, value]) => `${amount(one, value)} ${one}`).join(", ")]));

/** Return a table of disruption budgets: disruptions allowed, victims that count against them, and the rest. */
export function budgetsTable(budgets, caption) {
  const rows = budgets.map(({ name: own, allowed, used }) => {
    const left = allowed - used;
    return el("tr", {}, el("th", { scope: "row" }, name(own)), el("td", { class: "number" }, allowed), el("td", { class: "number" }, used), el("td", { class: "number" }, left),
      el("td", { class: left < 0 ? "bad" : null }, left < 0 ? `✗ violated by ${-left}` : "✓ respected"));
  });
  const made = table(caption, ["Budget", "Disruptions allowed", "Victims", "Left", ""], rows, { class: "budgets" });
  return scrolling(caption, made);
}
