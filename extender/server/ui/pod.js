// One pod on all nodes (`extender why`): the verdict in one sentence, nodes by reason, and each node on demand.

import * as api from "./api.js";
import { add, alert, byId, el, fact, name, prose, replace } from "./dom.js";
import { nodeTables } from "./node.js";
import { toNodes, toPending, toPod } from "./route.js";
import { slices } from "./slices.js";
import { amounts, commonFacts, describeSource, joined, judgedBy, outcomeOf } from "./words.js";

const NAMES = 100;
const GROUPS = 25;
const MAX_VICTIMS = 3;

export function createPod() {
  const view = byId("view-pod");
  let shown = null;
  let inFlight = null;

  async function load(route) {
    shown = route.pod;
    inFlight?.abort();
    const own = (inFlight = new AbortController());
    const heading = el("h1", { tabindex: "-1" }, name(route.pod));
    replace(view, back(), heading, el("p", { class: "muted loading" }, "evaluating the pod on every node …"));
    let content;
    try {
      content = detail(await api.why(route.pod, null, own.signal), route);
    } catch (error) {
      if (error.name === "AbortError") return;
      content = [alert(error.message), error.status === 404 ? null : el("p", {}, el("button", { type: "button", onclick: () => load(route) }, "Try again"))];
    }
    if (own !== inFlight) return;
    view.lastElementChild.remove();
    add(view, content);
  }

  return {
    title: (route) => route.pod,
    enter: (route) => shown !== route.pod && load(route),
    leave() {
      shown = null;
      inFlight?.abort();
      replace(view);
    },
  };
}

const back = () => el("p", { class: "back" }, el("a", { href: toPending() }, "← Pending pods"));

function detail(explained, route) {
  const found = explained.diagnosis;
  const { nodes = [], requests = {}, notes = [], notEvaluated = [] } = found;
  const groups = grouped(nodes).map((group) => createGroup(group, explained));
  const list = el("div");
  const more = slices(list, groups, (group) => group.element, "reasons", GROUPS);
  const wanted = route.given.get("node");
  const place = groups.findIndex((group) => group.has(wanted));
  if (place !== -1) {
    more.showTo(place);
    groups[place].open(wanted);
  }
  return [
    el("p", { class: "verdict" }, prose(found.why)),
    found.hint ? el("p", {}, prose(found.hint)) : null,
    el("dl", { class: "facts" },
      fact("kube-scheduler’s message", found.message && name(found.message)),
      fact("Priority", found.priority.toLocaleString("en")),
      fact("Requests", amounts(requests) || "nothing"),
      fact("Nominated node", found.nominatedNode && name(found.nominatedNode)),
      fact("Would be evicted", (found.preemption?.victims ?? []).map((one) => one.pod).length ? joined(found.preemption.victims.map((one) => name(one.pod)), 10) : null),
      fact("Not evaluated", notEvaluated.length ? `${notEvaluated.join(", ")}: left to kube-scheduler` : null),
      fact("Cluster", describeSource(found.source)),
      fact("Judged by", judgedBy(found)),
      fact("Version", found.source.versionHint),
      fact("Notes", notes.length ? el("ul", { class: "plain" }, notes.map((one) => el("li", {}, one))) : null)),
    wanted && place === -1 ? alert("The cluster has no node ", name(wanted), ".") : null,
    nodes.length ? [
      el("p", { class: "actions" }, el("a", { href: toNodes({ pod: route.pod }) }, "Show beside the free resources of the nodes")),
      el("h2", {}, `Nodes (${nodes.length.toLocaleString("en")})`), list, more.line] : null,
  ];
}

/** The outcome of a node, as in a decision of /filter: where evictions help, the node names the victims. */
const outcomeFor = (node) => (node.code === "Success" ? "accepted" : node.preemption?.victims.length ? "failed" : "unresolvable");

function grouped(nodes) {
  const groups = new Map();
  for (const node of nodes) {
    const outcome = outcomeFor(node);
    const reason = reasonOf(node);
    const key = `${outcome} ${reason}`;
    if (!groups.has(key)) groups.set(key, { outcome, reason, nodes: [] });
    groups.get(key).nodes.push(node);
  }
  const order = ["accepted", "failed", "unresolvable"];
  return [...groups.values()].sort((one, other) => order.indexOf(one.outcome) - order.indexOf(other.outcome) || other.nodes.length - one.nodes.length);
}

const reasonOf = (node) => (node.code === "Success" ? "" : `${node.plugin ? `${node.plugin}: ` : ""}${node.reasons.join(", ")}`);

function createGroup({ outcome, reason, nodes }, explained) {
  const { diagnosis, factSentences } = explained;
  const { label } = outcomeOf(outcome);
  const behind = commonFacts(nodes.map((node) => factSentences[node.name] ?? []));
  const items = new Map(); // name -> what opens it
  const element = el("details", { class: `group outcome-of-${outcome}`, "data-outcome": outcome, ontoggle: () => element.open && fill() },
    el("summary", {},
      el("span", { class: "group-count" }, nodes.length.toLocaleString("en")),
      el("span", { class: "muted of-all" }, `of ${diagnosis.nodes.length.toLocaleString("en")}`),
      el("span", { class: "group-text" }, el("strong", {}, label), reason ? el("span", { class: "group-why" }, reason) : null,
        behind ? el("span", { class: "group-why" }, name(behind)) : null)));
  let more = null;

  function fill() {
    if (more) return;
    const list = el("ul", { class: "names" });
    more = slices(list, nodes, (node) => nodeItem(node, explained, items), "nodes", NAMES);
    add(element, list, more.line);
  }

  return {
    element,
    has: (wanted) => nodes.some((one) => one.name === wanted),
    open(wanted) {
      element.open = true;
      fill();
      more.showTo(nodes.findIndex((one) => one.name === wanted));
      items.get(wanted)();
    },
  };
}

function nodeItem(node, explained, items) {
  const { pod } = explained.diagnosis;
  const button = el("button", { type: "button", class: "opener", "aria-expanded": "false", onclick: toggle }, name(node.name));
  const item = el("li", { "data-node": node.name }, button);
  let inner = null;
  items.set(node.name, toggle);

  function toggle() {
    const isOpen = !inner;
    button.setAttribute("aria-expanded", String(isOpen));
    item.classList.toggle("open", isOpen);
    if (!isOpen) {
      inner.remove();
      inner = null;
      return;
    }
    const own = (inner = el("div", { class: "inner" }, facts(node, explained), el("p", { class: "muted loading" }, "loading the node …")));
    item.append(own);
    api.why(pod, node.name).then(
      (latest) => {
        const { nodes, details, requests } = latest.diagnosis;
        replace(own, facts(nodes.find((one) => one.name === node.name) ?? node, latest), details ? nodeTables({ incoming: { requests } }, details) : null);
      },
      (error) => replace(own, facts(node, explained), alert(error.message)));
  }
  return item;
}

/** The sentences about a node: reasons, what is behind them where the report has it, scores, victims. */
function facts(node, { factSentences }) {
  const sentences = factSentences[node.name] ?? [];
  const victims = node.preemption?.victims ?? [];
  const status = node.preemption?.status;
  return el("dl", { class: "facts" },
    fact("Reasons", reasonOf(node)),
    fact("Because", sentences.length ? el("ul", { class: "plain" }, sentences.map((one) => el("li", {}, name(one)))) : null),
    fact("Score", node.scores ? `${node.scores.total.toLocaleString("en")}, rank ${node.scores.rank}` : null),
    fact("Would be evicted", victims.length ? joined(victims.map((one) => name(one)), 10) : null),
    fact("Why preemption does not help", status ? `${status.plugin ? `${status.plugin}: ` : ""}${status.reasons.join(", ")}` : null),
    fact("Not evaluated", node.notEvaluated.join(", ")));
}

/** What the table of nodes says about a pod on one node. */
export function nodeVerdict(wanted, { diagnosis, factSentences }) {
  const node = diagnosis.nodes.find((one) => one.name === wanted);
  if (!node) return el("span", { class: "muted" }, "not evaluated");
  const outcome = outcomeFor(node);
  const { label } = outcomeOf(outcome);
  const victims = node.preemption?.victims ?? [];
  const why = factSentences[wanted]?.join("; ");
  return [
    el("a", { href: toPod(diagnosis.pod, node.name), class: `verdict-${outcome}` }, label),
    node.code === "Success" ? (node.scores ? el("span", { class: "group-why" }, `score ${node.scores.total.toLocaleString("en")}, rank ${node.scores.rank}`) : null)
      : el("span", { class: "group-why" }, name(why ?? reasonOf(node)), victims.length ? [`; evicts `, joined(victims.map((one) => name(one)), MAX_VICTIMS)] : null)];
}
