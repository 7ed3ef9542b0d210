// The nodes of the cluster: what is requested and free, taints, and for a chosen pod why it does not fit there.

import * as api from "./api.js";
import { alert, byId, el, foldingRow, foldingTable, name, parted, replace, scrolling } from "./dom.js";
import { freeBar } from "./bars.js";
import { picker } from "./picker.js";
import { nodeVerdict } from "./pod.js";
import { toNode, toNodes, toPod } from "./route.js";
import { pendingNames } from "./pending.js";
import { resourcesOf } from "./words.js";

const PAGE = 40;
const MAX_RESOURCES = 4; // columns: cpu, memory, and the next two that nodes have
const TYPING_PAUSE_MILLISECONDS = 250;

export function createNodes() {
  const view = byId("view-nodes");
  const text = el("input", { type: "search", name: "text", size: 26, placeholder: "name, taint or label key=value" });
  const sort = el("select", { name: "sort" },
    [["name", "by name"], ["cpu", "most free cpu first"], ["memory", "most free memory first"], ["pods", "most room for pods first"]].map(([value, label]) => el("option", { value }, label)));
  const pod = picker({ key: "pod", label: "Why not for pod", placeholder: "namespace/name", suggest: pendingNames, size: 30, chosen: changed });
  const message = el("p", { class: "muted", id: "nodes-message" });
  const verdict = el("div", { id: "nodes-verdict" });
  const list = el("div", { id: "nodes-list" });
  const previous = el("button", { type: "button", onclick: () => turn(-PAGE) }, "‹ Previous page");
  const next = el("button", { type: "button", onclick: () => turn(PAGE) }, "Next page ›");
  let offset = 0;
  let inFlight = null;
  let asked = { pod: "", explained: null }; // the pod of the last answer

  replace(view, el("h1", { tabindex: "-1" }, "Nodes"),
    el("p", { class: "muted" }, "What the pods of each node request, as kube-scheduler counts it; not what they use."),
    el("form", { class: "filters", id: "node-filters", role: "search", onsubmit: (event) => (event.preventDefault(), changed()) },
      el("label", {}, "Search ", text), el("label", {}, "Order ", sort), pod.element),
    message, verdict, list, el("p", { class: "line" }, previous, next));

  let typing = 0;
  const soon = () => {
    clearTimeout(typing);
    typing = setTimeout(changed, TYPING_PAUSE_MILLISECONDS);
  };
  text.addEventListener("input", soon);
  pod.field.addEventListener("change", soon);
  sort.addEventListener("change", changed);

  const wanted = () => ({ text: text.value.trim(), sort: sort.value === "name" ? "" : sort.value, pod: pod.field.value.trim() });

  function changed() {
    offset = 0;
    history.replaceState(history.state, "", toNodes(wanted()));
    refresh();
  }

  async function turn(step) {
    offset += step;
    await refresh();
    window.scrollTo(0, 0);
  }

  async function refresh() {
    inFlight?.abort();
    const own = (inFlight = new AbortController());
    const { pod: key, ...filters } = wanted();
    list.setAttribute("aria-busy", "true");
    try {
      const [answer, explained] = await Promise.all([api.nodes({ ...filters, offset, limit: PAGE }, own.signal), explanationOf(key, own.signal)]);
      if (own !== inFlight) return;
      show(answer, key, explained);
    } catch (error) {
      if (own === inFlight && error.name !== "AbortError") replace(message, alert(error.message));
    } finally {
      if (own === inFlight) list.removeAttribute("aria-busy");
    }
  }

  /** Ask about the pod once, not again for each page; a Failure is shown in its place. */
  async function explanationOf(key, signal) {
    if (!key) return null;
    if (asked.pod === key) return asked.explained;
    if (!/^[^/]+\/[^/]+$/.test(key)) return { failed: "A pod is written as namespace/name." };
    replace(verdict, el("p", { class: "muted" }, "asking why not …"));
    try {
      asked = { pod: key, explained: await api.why(key, null, signal) };
      return asked.explained;
    } catch (error) {
      if (error.name === "AbortError") throw error;
      return { failed: error.message };
    }
  }

  function show(answer, key, explained) {
    const { nodes, matching, total } = answer;
    const end = offset + nodes.length;
    replace(message, !total ? "The cluster has no nodes." : !matching ? `None of ${total.toLocaleString("en")} nodes matches.`
      : `${nodes.length < matching ? `${offset + 1}–${end} of ` : ""}${matching.toLocaleString("en")} nodes${matching < total ? ` that match, of ${total.toLocaleString("en")}` : ""}.`);
    previous.hidden = offset === 0;
    next.hidden = end >= matching;
    if (explained?.failed) replace(verdict, alert(explained.failed));
    else replace(verdict, explained && el("p", {}, el("a", { href: toPod(key) }, name(key)), ": ", name(explained.diagnosis.why)));
    replace(list, nodes.length ? table(nodes, explained?.diagnosis?.nodes.length ? explained : null) : null);
  }

  return {
    title: () => "Nodes",
    enter(route) {
      text.value = route.given.get("text") ?? "";
      sort.value = route.given.get("sort") || "name";
      pod.field.value = route.given.get("pod") ?? "";
      refresh();
    },
    leave() {
      inFlight?.abort();
      asked = { pod: "", explained: null };
    },
  };
}

function table(nodes, explained) {
  const resources = resourcesOf(...nodes.map((one) => one.allocatable)).filter((one) => one !== "ephemeral-storage");
  const shown = [...resources.filter((one) => one !== "pods").slice(0, MAX_RESOURCES - 1), "pods"];
  const headings = ["Node", ...(explained ? ["For this pod"] : []), ...shown.map((one) => [one, "free of allocatable"]), "Taints"];
  const row = (node) => foldingRow(headings, [
    el("a", { href: toNode(node.name) }, name(node.name)),
    ...(explained ? [nodeVerdict(node.name, explained)] : []),
    ...shown.map((resource) => freeBar(resource, node.requested?.[resource] ?? 0, node.allocatable?.[resource])),
    [node.unschedulable ? el("span", { class: "tag outcome-noVictims" }, "cordoned") : null, (node.taints ?? []).map(taintTag)],
  ]);
  return scrolling("Nodes", foldingTable(headings, nodes.map(row), { class: "nodes" }));
}

export const taintTag = (taint) => el("span", { class: "tag taint" }, parted(taint));
