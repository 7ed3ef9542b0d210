// Nodes grouped by outcome and reason: those that are not candidates of a preemption, and the results of /filter.

import { add, el, name } from "./dom.js";
import { filterChain } from "./filter-chain.js";
import { nodeDetail } from "./node.js";
import { slices } from "./slices.js";
import { amounts, commonFacts, outcomeOf, together } from "./words.js";

const ORDER = ["rejected", "rejectedByPolicy", "insufficientAfterPreemption", "noVictims", "fits", "notEvaluated", "vetoed", "chosen", "accepted", "failed", "unresolvable"];

const FIRST_GROUPS = 25; // shown before "Show more"

/** Return the reason that the node shares with its group. */
function reasonOf(node) {
  const violated = (node.budgets ?? []).filter((one) => one.used > one.allowed).map((one) => one.name);
  if (node.outcome === "rejectedByPolicy" && !node.why) return violated.length ? `eviction would violate disruption budget ${violated.join(", ")}` : "";
  if (node.outcome === "noVictims") return node.counts?.protected ? "every pod is protected by a policy or at least as important as the preemptor" : node.counts ? "every pod is at least as important as the preemptor" : "the node runs no pods";
  const status = node.emptied ?? node.filter;
  const plugin = status?.plugin ? `${status.plugin}: ` : "";
  return node.why ? (status?.reasons?.join(", ") === node.why ? plugin + node.why : node.why) : plugin + (status?.reasons ?? []).join(", ");
}

function grouped(nodes) {
  const groups = new Map();
  for (const node of nodes) {
    const reason = reasonOf(node);
    const key = `${node.outcome} ${reason}`;
    if (!groups.has(key)) groups.set(key, { outcome: node.outcome, reason, nodes: [] });
    groups.get(key).nodes.push(node);
  }
  const place = (group) => ORDER.indexOf(group.outcome);
  return [...groups.values()].sort((one, other) => place(one) - place(other) || other.nodes.length - one.nodes.length);
}

export function notCandidates(about, nodes) {
  const others = nodes.filter((node) => node.rank === undefined);
  if (!others.length) return null;
  const canOpen = (node) => node.counts !== undefined; // set where preemption was tried (dry run)
  return section(about, "others", `Nodes that are not candidates (${others.length.toLocaleString("en")})`, others, canOpen);
}

export function byStatus(about, nodes) {
  const hasClaims = Boolean(about.decision.incoming?.claims?.length); // what a node has for them is told on demand
  return section(about, "statuses", `Nodes (${nodes.length.toLocaleString("en")})`, nodes, () => hasClaims);
}

function section(about, id, title, nodes, canOpen) {
  const groups = grouped(nodes).map((group) => createGroup(about, group, canOpen));
  const list = el("div");
  const more = slices(list, groups, (group) => group.element(nodes.length), "reasons", FIRST_GROUPS);
  return {
    element: el("section", { id }, el("h2", {}, title), nodes.length ? [list, more.line] : el("p", {}, "kube-scheduler sent no nodes.")),
    reveal(node) {
      const place = groups.findIndex((group) => group.has(node));
      if (place === -1) return null;
      more.showTo(place);
      return groups[place].reveal(node);
    },
    toggle: (node, isOpen) => groups.some((group) => group.toggle(node, isOpen)),
  };
}

function createGroup(about, group, canOpen) {
  const places = new Map(group.nodes.map((node, place) => [node.name, place]));
  const items = new Map(); // name -> { item, button, details }
  let more = null;
  let details = null;

  /** Create the elements of the node names when the group is opened for the first time. */
  function fill() {
    if (more) return;
    const list = el("ul", { class: "names" });
    more = slices(list, group.nodes, itemOf, "nodes");
    add(details, filterChain(about.decision, group.nodes[0]), list, more.line);
  }

  const aside = (node) => (node.factSentences ? el("span", { class: "muted" }, ": ", name(node.factSentences.join("; "))) : node.free ? el("span", { class: "muted" }, ` free: ${amounts(node.free)}`) : null);

  function itemOf(node) {
    if (!canOpen(node)) {
      const item = el("li", {}, name(node.name), aside(node));
      items.set(node.name, { item });
      return item;
    }
    const button = el("button", { type: "button", class: "opener", "aria-expanded": "false", onclick: () => open(node, !items.get(node.name).details, true) }, name(node.name));
    const item = el("li", {}, button, aside(node));
    items.set(node.name, { item, button, details: null });
    return item;
  }

  function open(node, isOpen, byReader = false) {
    const own = items.get(node.name);
    if (!own.button || Boolean(own.details) === isOpen) return;
    own.button.setAttribute("aria-expanded", String(isOpen));
    own.item.classList.toggle("open", isOpen);
    if (isOpen) {
      own.details = el("div", { class: "inner" }, nodeDetail(about.decision, node));
      own.item.append(own.details);
    } else {
      own.details.remove();
      own.details = null;
    }
    about.opened(node.name, isOpen, byReader);
  }

  return {
    has: (node) => places.has(node),
    element(all) {
      const { label, meaning } = outcomeOf(group.outcome);
      details = el("details", { class: `group outcome-of-${group.outcome}`, "data-outcome": group.outcome, ontoggle: () => details.open && fill() },
        el("summary", {},
          el("span", { class: "group-count" }, group.nodes.length.toLocaleString("en")),
          el("span", { class: "share", "aria-hidden": "true" }, shareBar(group.nodes.length / all)),
          el("span", { class: "group-text" }, el("strong", {}, label), meaning ? `: ${meaning}` : null,
            group.reason ? el("span", { class: "group-why" }, group.reason, mostFree(about.decision, group.nodes) ?? sharedFacts(group.nodes)) : null)));
      return details;
    },
    reveal(wanted) {
      details.open = true;
      fill();
      more.showTo(places.get(wanted));
      open(group.nodes[places.get(wanted)], true);
      const { item } = items.get(wanted);
      item.classList.add("found");
      return item;
    },
    toggle(wanted, isOpen) {
      if (!items.has(wanted)) return false;
      open(group.nodes[places.get(wanted)], isOpen);
      return true;
    },
  };
}

/** What the pod requests of a resource that a node has too little of, and the most that one of the nodes has left. */
function mostFree({ incoming = {} }, nodes) {
  const requested = { ...incoming.requests, pods: 1 };
  const short = Object.keys(nodes[0].free ?? {}).filter((one) => nodes.some((node) => node.free[one] < requested[one]));
  if (!short.length) return null;
  const sentence = (one) => {
    const [wanted, most] = together(one, [requested[one], Math.max(...nodes.map((node) => node.free[one]))]);
    return `${wanted} ${one} requested, at most ${most} free on a node`;
  };
  return ` (${short.map(sentence).join("; ")})`;
}

/** The facts that nodes share, such as a taint; of very many nodes only some have facts. */
function sharedFacts(nodes) {
  const known = nodes.filter((node) => node.factSentences);
  const lookedAt = known.length < nodes.length ? `; ${known.length} of ${nodes.length} looked at` : "";
  return known.length ? [" (", name(commonFacts(known.map((node) => node.factSentences)) + lookedAt), ")"] : null;
}

function shareBar(share) {
  const bar = el("span", { class: "share-bar" });
  bar.style.width = `${Math.max(2, 100 * share)}%`;
  return bar;
}
