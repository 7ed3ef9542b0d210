// Nodes that are no candidates, and the verdicts of /filter: grouped by what is said of them.

import { add, el, name } from "./dom.js";
import { nodeDetail } from "./node.js";
import { slices } from "./slices.js";
import { count, outcomeLabel, OUTCOMES } from "./words.js";

const ORDER = ["rejected", "ruledOut", "noRoom", "noVictims", "fits", "leftOut", "vetoed", "chosen", "accepted", "failed", "unresolvable"];

const FIRST_GROUPS = 25;

/** Node -> what its group has in common. */
function reasonOf(node) {
  const broken = (node.budgets ?? []).filter((one) => one.charged > one.allowed).map((one) => one.name);
  if (node.outcome === "ruledOut" && !node.why) return broken.length ? `would break disruption budget ${broken.join(", ")}` : "";
  if (node.outcome === "noVictims") return node.counts?.protected ? "protected by policies, or not less important" : node.counts ? "all pods are at least as important" : "no pod runs there";
  const verdict = node.emptied ?? node.filter;
  const plugin = verdict?.plugin ? `${verdict.plugin}: ` : "";
  return node.why ? (verdict?.reasons?.join(", ") === node.why ? plugin + node.why : node.why) : plugin + (verdict?.reasons ?? []).join(", ");
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
  const canOpen = (node) => node.counts !== undefined; // those on which preemption was tried
  return section(about, "others", `Nodes that are no candidates (${others.length.toLocaleString("en")})`, others, canOpen);
}

export function byVerdict(about, nodes) {
  return section(about, "verdicts", `Nodes (${nodes.length.toLocaleString("en")})`, nodes, () => false);
}

function section(about, id, title, nodes, canOpen) {
  const groups = grouped(nodes).map((group) => createGroup(about, group, canOpen));
  const list = el("div");
  const more = slices(list, groups, (group) => group.element(nodes.length), "reasons", FIRST_GROUPS);
  return {
    element: el("section", { id }, el("h2", {}, title), nodes.length ? [list, more.line] : el("p", {}, "No node was offered.")),
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

  /** Only now do the names become elements. */
  function fill() {
    if (more) return;
    const list = el("ul", { class: "names" });
    more = slices(list, group.nodes, itemOf, "nodes");
    add(details, chain(about.decision, group.nodes[0]), list, more.line);
  }

  function itemOf(node) {
    if (!canOpen(node)) {
      const item = el("li", {}, name(node.name));
      items.set(node.name, { item });
      return item;
    }
    const button = el("button", { type: "button", class: "opener", "aria-expanded": "false", onclick: () => open(node, !items.get(node.name).details, true) }, name(node.name));
    const item = el("li", {}, button);
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
      const meaning = OUTCOMES[group.outcome]?.[1];
      details = el("details", { class: `group outcome-of-${group.outcome}`, "data-outcome": group.outcome, ontoggle: () => details.open && fill() },
        el("summary", {},
          el("span", { class: "group-count" }, group.nodes.length.toLocaleString("en")),
          el("span", { class: "share", "aria-hidden": "true" }, shareBar(group.nodes.length / all)),
          el("span", { class: "group-said" }, el("strong", {}, outcomeLabel(group.outcome)), meaning ? `: ${meaning}` : null,
            group.reason ? el("span", { class: "group-why" }, group.reason) : null)));
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

function shareBar(share) {
  const bar = el("span", { class: "share-bar" });
  bar.style.width = `${Math.max(2, 100 * share)}%`;
  return bar;
}

/** The filters in their order: who let the pod pass, who said no, who was not asked. */
export function chain(decision, node) {
  const { filters = [] } = decision;
  const verdict = node.filter;
  if (!filters.length || !verdict || (verdict.code !== "Success" && !filters.includes(verdict.plugin))) return null;
  const at = verdict.code === "Success" ? filters.length : filters.indexOf(verdict.plugin);
  const helps = verdict.code === "Unschedulable" ? "evicting pods may help" : "evicting pods does not help";
  const passed = filters.slice(0, at);
  const unasked = filters.slice(at + 1);
  return el("p", { class: "chain" },
    passed.length ? [el("span", { class: "passed" }, `✓ ${count(passed.length, "filter")} pass`), ` (${passed.join(", ")})`] : null,
    at < filters.length ? [passed.length ? " · " : null, el("strong", { class: "bad" }, `✗ ${filters[at]}`), `: ${(verdict.reasons ?? []).join(", ")} (${helps})`] : null,
    unasked.length ? el("span", { class: "muted" }, ` · not asked: ${unasked.join(", ")}`) : null);
}
