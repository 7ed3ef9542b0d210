// One node of the cluster: free resources, taints, labels, and its pods.

import * as api from "./api.js";
import { alert, byId, el, fact, foldingRow, foldingTable, name, parted, replace, scrolling } from "./dom.js";
import { freeBar } from "./bars.js";
import { taintTag } from "./nodes.js";
import { toDrain, toList, toNodes, toPod } from "./route.js";
import { slices } from "./slices.js";
import { relative } from "./times.js";
import { amount, count, resourcesOf, together } from "./words.js";

const PODS = 50;
const LABELS = 12;
const RESOURCE_HEADINGS = ["Resource", "Free", "Requested", "Allocatable"];

export function createClusterNode() {
  const view = byId("view-node");
  let shown = null;

  async function load(wanted) {
    const own = (shown = wanted);
    const back = el("p", { class: "back" }, el("a", { href: toNodes() }, "← All nodes"));
    const heading = el("h1", { tabindex: "-1" }, name(wanted));
    replace(view, back, heading, el("p", { class: "muted loading" }, "loading …"));
    let content;
    try {
      content = detail(await api.clusterNode(wanted));
    } catch (error) {
      content = alert(error.message);
    }
    if (shown !== own) return;
    view.lastElementChild.remove();
    view.append(...[content].flat(Infinity).filter(Boolean));
  }

  return {
    title: (route) => route.name,
    enter: (route) => shown !== route.name && load(route.name),
    leave() {
      shown = null;
      replace(view);
    },
  };
}

function detail(node) {
  const resources = resourcesOf(node.allocatable, node.requested);
  const { running = [], nominated = [], taints = [], labels = {} } = node;
  return [
    el("dl", { class: "facts" },
      fact("Scheduling", node.unschedulable ? "cordoned: no new pod is scheduled here" : "open for new pods"),
      fact("Taints", taints.length ? taints.map(taintTag) : "none"),
      fact("Labels", labelList(labels))),
    el("p", { class: "actions" }, el("a", { class: "button", href: toDrain(node.name) }, "What would a drain do?"), el("a", { href: toList({ node: node.name }) }, "Decisions about this node")),
    el("h2", {}, "Resources"),
    foldingTable(RESOURCE_HEADINGS, resources.map((one) => {
      const used = node.requested?.[one] ?? 0;
      const room = node.allocatable?.[one];
      // In the unit of the bar, which shows the free amount, too.
      const [requested, allocatable] = together(one, [used, room ?? 0, Math.abs((room ?? used) - used)]);
      return foldingRow(RESOURCE_HEADINGS, [name(one), freeBar(one, used, room), requested, allocatable]);
    }), { class: "resources" }),
    el("h2", {}, `Pods (${running.length.toLocaleString("en")})`),
    running.length ? pods("Pods of the node, the most important first", running) : el("p", {}, "The node runs no pods."),
    nominated.length ? [el("h2", {}, `${count(nominated.length, "pod")} nominated to this node`), pods("Pods that wait for room on this node", nominated)] : null,
  ];
}

function labelList(labels) {
  const found = Object.entries(labels).map(([key, value]) => el("li", {}, parted(`${key}=${value}`)));
  if (!found.length) return "none";
  const list = el("ul", { class: "plain" });
  return [list, slices(list, found, (one) => one, "labels", LABELS).line];
}

const HEADINGS = ["Pod", "Priority", "cpu", "memory", "Started"];

function pods(label, several) {
  const body = el("tbody");
  const row = (pod) => foldingRow(HEADINGS, [
    [el("a", { href: toPod(pod.key) }, name(pod.key)), pod.terminating ? el("span", { class: "tag aside" }, "terminating") : null],
    (pod.priority ?? 0).toLocaleString("en"),
    ...["cpu", "memory"].map((one) => amount(one, pod.requests?.[one] ?? 0)),
    pod.started ? relative(pod.started) : el("span", { class: "muted" }, "not started"),
  ]);
  const more = slices(body, several, row, "pods", PODS);
  return [scrolling(label, foldingTable(HEADINGS, body)), more.line];
}
