// The candidates of a preemption: rows best first, the ranking's criteria as columns, and the criterion by which each
// row is outranked.

import { el, name, prose, scrolling, visuallyHidden } from "./dom.js";
import { nodeDetail } from "./node.js";
import { slices } from "./slices.js";
import { count, criterion, joined } from "./words.js";

const WIDTHS = { PDBViolations: "w-count", VictimCount: "w-count", PrioritySum: "w-sum", LatestStartTime: "w-time" };
const MAX_CRITERIA_WITHOUT_SCROLLING = 5; // on a large screen

export function candidates(about, nodes) {
  const { ranking } = about.decision;
  const ranked = nodes.filter((node) => node.rank !== undefined);
  if (!ranking) return null;
  const heading = el("h2", {}, `Candidates (${ranked.length.toLocaleString("en")})`);
  if (!ranked.length) {
    return { element: el("section", { id: "candidates" }, heading, el("p", {}, "No node is a candidate.")), reveal: () => null };
  }
  const { criteria } = ranking;
  const body = el("tbody");
  const rows = new Map(); // name -> { button, row, details }
  const columns = 4 + criteria.length;

  function rowOf(node) {
    const button = el("button", { type: "button", class: "opener", "aria-expanded": "false", onclick: () => open(node, !rows.get(node.name).details, true) },
      name(node.name));
    const row = el("tr", { class: node.outcome === "chosen" ? "chosen" : null },
      el("td", { class: "number" }, node.rank),
      el("th", { scope: "row" }, button, node.outcome === "outranked" ? null : el("span", { class: `tag outcome-${node.outcome}` }, node.outcome === "rejected" ? "rejected" : "chosen"),
        node.sent === false ? el("span", { class: "tag aside", title: "kube-scheduler did not send this candidate; the policies consider all nodes" }, "not sent") : null),
      criteria.map((key, place) => criterionCell(node, ranking, key, place)),
      el("td", {}, victims(node)),
      el("td", {}, outrankedBy(node, ranking)),
    );
    rows.set(node.name, { button, row, details: null });
    return row;
  }

  function open(node, isOpen, byReader = false) {
    const own = rows.get(node.name);
    if (Boolean(own.details) === isOpen) return;
    own.button.setAttribute("aria-expanded", String(isOpen));
    if (isOpen) {
      own.details = el("tr", { class: "details" }, el("td", { colspan: columns }, el("div", { class: "inner" }, nodeDetail(about.decision, node))));
      own.row.after(own.details);
    } else {
      own.details.remove();
      own.details = null;
    }
    about.opened(node.name, isOpen, byReader);
  }

  const more = slices(body, ranked, rowOf, "candidates", 25);
  const place = new Map(ranked.map((node, at) => [node.name, at]));
  const table = el("table", { class: "candidates" },
    el("caption", { class: "visually-hidden" }, "Candidates, best first"),
    el("colgroup", {}, el("col", { class: "w-rank" }), el("col", { class: "w-node" }), criteria.map((key) => el("col", { class: WIDTHS[key] ?? "w-key" })), el("col", { class: "w-victims" }), el("col", { class: "w-lost" })),
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, visuallyHidden("rank"), "#"), el("th", { scope: "col" }, "Node"),
      criteria.map((key) => criterionHeading(key, ranking)),
      el("th", { scope: "col" }, "Victims"), el("th", { scope: "col" }, "Outranked by"))),
    body);
  return {
    element: el("section", { id: "candidates" }, heading, decidedBy(ranking),
      scrolling("Candidates", table, { class: criteria.length <= MAX_CRITERIA_WITHOUT_SCROLLING ? "scroll fits" : "scroll" }), more.line),
    reveal(wanted) {
      if (!place.has(wanted)) return null;
      more.showTo(place.get(wanted));
      open(ranked[place.get(wanted)], true);
      return rows.get(wanted).row;
    },
    toggle(wanted, isOpen) {
      if (!rows.has(wanted)) return false;
      open(ranked[place.get(wanted)], isOpen);
      return true;
    },
  };
}

function decidedBy(ranking) {
  const { decidedBy: key, candidates: all, ties = [] } = ranking;
  const how = "Criteria are compared from left to right: the first one that differs decides between two candidates.";
  if (!key) return el("p", {}, all === 1 ? "The only candidate." : how);
  if (key === "named" || key === "name") {
    const by = key === "named" ? "its victims are the ones that kube-scheduler selected" : "its name sorts first";
    return el("p", {}, how, ` ${count(ties.length, "candidate")} tie for the best; the chosen one won because `, el("strong", {}, by), ".");
  }
  return el("p", {}, how, " Decided by ", el("strong", {}, criterion(key).label), ` (${criterion(key).better}).`);
}

function criterionHeading(key, ranking) {
  const { label, better } = criterion(key);
  const decides = ranking.decidedBy === key;
  return el("th", { scope: "col", class: decides ? "decides" : null, "data-criterion": key },
    label, el("span", { class: "better" }, better), decides ? el("span", { class: "tag decided" }, "decided") : null);
}

/** The value of one criterion: equal to the best candidate, worse (the row is outranked here), or no longer compared. */
function criterionCell(node, ranking, key, place) {
  const value = node.shown?.[place] ?? "";
  const criteria = ranking.criteria;
  if (node.rank === 1) {
    const wins = ranking.decidedBy === key;
    return el("td", { class: wins ? "key wins" : "key", "data-criterion": key }, wins ? [el("span", { "aria-hidden": "true" }, "✓ "), visuallyHidden("decided here: ")] : null, prose(value));
  }
  const at = criteria.indexOf(node.losesBy);
  if (at === place) return el("td", { class: "key loses", "data-criterion": key }, el("span", { "aria-hidden": "true" }, "✗ "), visuallyHidden("outranked here: "), prose(value));
  return el("td", { class: at !== -1 && place > at ? "key not-compared" : "key", "data-criterion": key }, prose(value));
}

function outrankedBy(node, ranking) {
  if (node.rank === 1) return el("span", { class: "muted" }, ranking.candidates > 1 ? "best" : "only candidate");
  return node.losesBy ? criterion(node.losesBy).label : "";
}

function victims(node) {
  const found = node.victims ?? [];
  if (!found.length) return el("span", { class: "muted" }, "none");
  return joined(found.map((one) => name(one)), 1);
}
