// The requests on a node, before and after: by pod role in stacked bars with a table of the amounts, or all together.

import { el, scrolling, svg, visuallyHidden } from "./dom.js";
import { resourcesOf, ROLES, together } from "./words.js";

/** Roles from left to right. Each has its own colour, some a pattern, and a label where the segment is wide enough. */
const PARTS = ["kept", "protected", "evictable", "reprieved", "victim", "nominated", "preemptor"];
const HEIGHT = 24;
const LABEL_MARGIN = 8; // pixels

/**
 * Draw two bars per resource (before, after), each with a text for screen readers, then one table with all amounts.
 * `parts`: role -> { pods, amounts }; `removed`: roles in the bar before only; `added`: roles in the bar after only.
 */
export function bars({ parts, allocatable, removed, added, afterwards }) {
  const resources = resourcesOf(allocatable);
  const present = PARTS.filter((part) => parts[part]?.pods);
  const before = present.filter((part) => !added.includes(part));
  const after = present.filter((part) => !removed.includes(part));
  const of = (part, resource) => parts[part].amounts[resource] ?? 0;
  const sum = (several, resource) => several.reduce((total, part) => total + of(part, resource), 0);
  const figures = resources.map((resource) => {
    const room = allocatable[resource];
    const widest = Math.max(room, sum(before, resource), sum(after, resource)) || 1;
    const one = (when, several) => bar(resource, when, several.map((part) => [part, of(part, resource)]), room, widest);
    return el("div", { class: "bar-of", "data-resource": resource },
      el("span", { class: "bar-name" }, resource), one("before", before), one(afterwards, after));
  });
  return el("div", { class: "bars" }, figures, amountsTable(resources, present, parts, allocatable, before, after, afterwards));
}

/** Show the labels that are narrower than their segment: a bar gets narrower with the window. */
const labelled = new ResizeObserver((entries) => {
  for (const { target, contentRect } of entries) {
    for (const text of target.querySelectorAll("text")) {
      text.classList.toggle("too-wide", text.getComputedTextLength() + LABEL_MARGIN > (contentRect.width * text.dataset.percent) / 100);
    }
  }
});

function bar(resource, when, several, room, widest) {
  const percent = (value) => (100 * value) / widest;
  const used = several.reduce((total, [, value]) => total + value, 0);
  const drawn = svg("svg", { class: "bar", width: "100%", height: HEIGHT, role: "img", focusable: "false" });
  const left = room - used;
  const taken = several.filter(([, value]) => value);
  const [ofRoom, ofRest, ofAll, ...ofParts] = together(resource, [room, Math.abs(left), used, ...taken.map(([, value]) => value)]);
  const labels = taken.map(([part], place) => `${ROLES[part].label} ${ofParts[place]}`);
  const rest = left >= 0 ? `free ${ofRest}` : `exceeded by ${ofRest}`;
  drawn.setAttribute("aria-label", `${resource} ${when}: ${[...labels, rest].join(", ")} of ${ofRoom}`);
  drawn.append(svg("rect", { x: 0, y: 0, width: `${percent(room)}%`, height: HEIGHT, class: "room" }));
  let from = 0;
  for (const [part, value] of several) {
    const width = percent(value);
    if (!width) continue;
    drawn.append(svg("rect", { x: `${from}%`, y: 0, width: `${width}%`, height: HEIGHT, class: `part part-${part}` }),
      svg("text", { x: `${from + width / 2}%`, y: HEIGHT / 2 + 4, class: "part-name", "data-percent": width }, ROLES[part].label));
    from += width;
  }
  labelled.observe(drawn);
  const edge = Math.min(100, percent(room));
  if (edge < 100) drawn.append(svg("line", { x1: `${edge}%`, x2: `${edge}%`, y1: 0, y2: HEIGHT, class: "edge" }));
  return el("div", { class: "bar-line" },
    el("span", { class: "bar-when" }, when), drawn,
    el("span", { class: left < 0 ? "bar-sum bad" : "bar-sum" }, visuallyHidden(`${resource} `), `${ofAll} of ${ofRoom}`));
}

function amountsTable(resources, present, parts, allocatable, before, after, afterwards) {
  const free = (several, resource) => allocatable[resource] - several.reduce((total, part) => total + (parts[part].amounts[resource] ?? 0), 0);
  const line = (swatch, label, meaning, pods, values) => el("tr", {},
    el("th", { scope: "row" }, svg("svg", { class: "swatch", width: 14, height: 14, "aria-hidden": "true" }, svg("rect", { width: 14, height: 14, class: swatch })), " ", label,
      meaning ? el("span", { class: "meaning muted" }, ` ${meaning}`) : null),
    el("td", { class: "number" }, pods), values.map((value) => el("td", { class: "number" }, value)));
  const shown = resources.filter((resource) => resource !== "pods");
  const columns = shown.map((resource) => together(resource, [...present.map((part) => parts[part].amounts[resource] ?? 0), free(before, resource), free(after, resource)]));
  const cells = (place) => columns.map((column) => column.at(place));
  return scrolling("Requests by pod role", el("table", { class: "amounts" },
    el("caption", { class: "visually-hidden" }, "Requests by pod role"),
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Used by"), el("th", { scope: "col", class: "number" }, "Pods"), shown.map((resource) => el("th", { scope: "col", class: "number" }, resource)))),
    el("tbody", {},
      present.map((part, place) => line(`part part-${part}`, ROLES[part].label, ROLES[part].meaning, parts[part].pods, cells(place))),
      line("room", "free before", "", "", cells(-2)),
      line("room", `free ${afterwards}`, "", "", cells(-1)))));
}

const THIN_HEIGHT = 12;

/** Draw two thin bars per resource that changes: the requests of all pods before and after a simulation. A node may be added or removed. */
export function usageBars({ before, after, allocatable, state }) {
  const lines = { before: state === "added" ? "not in the cluster" : before, after: state === "removed" ? "not in the cluster" : after };
  const changes = (resource) => state === "added" || state === "removed" || (before[resource] ?? 0) !== (after[resource] ?? 0);
  const shown = resourcesOf(allocatable).filter((resource) => allocatable[resource] && changes(resource));
  if (!shown.length) return el("p", { class: "muted" }, "Its requests do not change.");
  return shown.map((resource) =>
    el("div", { class: "bar-of", "data-resource": resource }, el("span", { class: "bar-name" }, resource),
      Object.entries(lines).map(([when, used]) => typeof used === "string"
        ? el("div", { class: "bar-line" }, el("span", { class: "bar-when" }, when), el("span", { class: "muted" }, used))
        : usageBar(resource, when, used[resource] ?? 0, allocatable[resource]))));
}

function usageBar(resource, when, used, room) {
  const text = together(resource, [used, room]).join(" of ");
  return el("div", { class: "bar-line" }, el("span", { class: "bar-when" }, when),
    svg("svg", { class: "bar thin", width: "100%", height: THIN_HEIGHT, role: "img", "aria-label": `${resource} ${when}: ${text}` },
      svg("rect", { width: "100%", height: THIN_HEIGHT, class: "room" }), svg("rect", { width: `${Math.min(100, (100 * used) / room)}%`, height: THIN_HEIGHT, class: `part part-used-${when}` })),
    el("span", { class: used > room ? "bar-sum bad" : "bar-sum" }, text));
}

/** Draw how much of a resource is requested, and say what is free; a resource that the node does not have is a dash. */
export function freeBar(resource, used, room) {
  if (room === undefined) return el("span", { class: "muted" }, "–");
  const left = room - used;
  const [ofRest, ofRoom, requested] = together(resource, [Math.abs(left), room, used]);
  const text = left < 0 ? `exceeded by ${ofRest}` : ofRest;
  return [
    el("span", { class: left < 0 ? "free-text bad" : "free-text", title: `${requested} requested` }, el("strong", {}, text), ` of ${ofRoom}`),
    svg("svg", { class: "bar thin", width: "100%", height: 6, "aria-hidden": "true" },
      svg("rect", { width: "100%", height: 6, class: "room" }), svg("rect", { width: `${room > 0 ? Math.min(100, (100 * used) / room) : 0}%`, height: 6, class: "part part-used-before" }))];
}
