// What a node's room is used for, before and after: stacked bars, and the same in numbers.

import { el, svg, unseen } from "./dom.js";
import { amount, resourcesOf, ROLES } from "./words.js";

/** From left to right. Each has a colour and a pattern of its own, and its name where there is room for it. */
const PARTS = ["kept", "protected", "evictable", "reprieved", "victim", "nominated", "preemptor"];
const HEIGHT = 24;
const NAMED_FROM = 11; // percent of the width
const NAMED_ON_NARROW_FROM = 30; // the same on a narrow screen

/**
 * `parts`: part -> { pods, amounts }; `gone`: parts that are there before only; `come`: after only.
 * Bars for every resource, each with its text; then one table with all amounts.
 */
export function bars({ parts, allocatable, gone, come, afterwards }) {
  const resources = resourcesOf(allocatable);
  const there = PARTS.filter((part) => parts[part]?.pods);
  const before = there.filter((part) => !come.includes(part));
  const after = there.filter((part) => !gone.includes(part));
  const of = (part, resource) => parts[part].amounts[resource] ?? 0;
  const sum = (several, resource) => several.reduce((total, part) => total + of(part, resource), 0);
  const figures = resources.map((resource) => {
    const room = allocatable[resource];
    const widest = Math.max(room, sum(before, resource), sum(after, resource)) || 1;
    const one = (when, several) => bar(resource, when, several.map((part) => [part, of(part, resource)]), room, widest);
    return el("div", { class: "bar-of", "data-resource": resource },
      el("span", { class: "bar-name" }, resource), one("before", before), one(afterwards, after));
  });
  return el("div", { class: "bars" }, figures, numbers(resources, there, parts, allocatable, before, after, afterwards));
}

function bar(resource, when, several, room, widest) {
  const percent = (value) => (100 * value) / widest;
  const used = several.reduce((total, [, value]) => total + value, 0);
  const drawn = svg("svg", { class: "bar", width: "100%", height: HEIGHT, role: "img", focusable: "false" });
  const said = several.filter(([, value]) => value).map(([part, value]) => `${ROLES[part][0]} ${amount(resource, value)}`);
  const left = room - used;
  const rest = left >= 0 ? `free ${amount(resource, left)}` : `too much by ${amount(resource, -left)}`;
  drawn.setAttribute("aria-label", `${resource} ${when}: ${[...said, rest].join(", ")} of ${amount(resource, room)}`);
  drawn.append(svg("rect", { x: 0, y: 0, width: `${percent(room)}%`, height: HEIGHT, class: "room" }));
  let from = 0;
  for (const [part, value] of several) {
    const width = percent(value);
    if (!width) continue;
    drawn.append(svg("rect", { x: `${from}%`, y: 0, width: `${width}%`, height: HEIGHT, class: `part part-${part}` }));
    if (width >= NAMED_FROM) drawn.append(svg("text", { x: `${from + width / 2}%`, y: HEIGHT / 2 + 4, class: width < NAMED_ON_NARROW_FROM ? "part-name small" : "part-name" }, ROLES[part][0]));
    from += width;
  }
  const edge = Math.min(100, percent(room));
  if (edge < 100) drawn.append(svg("line", { x1: `${edge}%`, x2: `${edge}%`, y1: 0, y2: HEIGHT, class: "edge" }));
  return el("div", { class: "bar-line" },
    el("span", { class: "bar-when" }, when), drawn,
    el("span", { class: left < 0 ? "bar-sum bad" : "bar-sum" }, unseen(`${resource} `), `${amount(resource, used)} of ${amount(resource, room)}`));
}

function numbers(resources, there, parts, allocatable, before, after, afterwards) {
  const free = (several, resource) => allocatable[resource] - several.reduce((total, part) => total + (parts[part].amounts[resource] ?? 0), 0);
  const line = (swatch, said, meaning, pods, values) => el("tr", {},
    el("th", { scope: "row" }, svg("svg", { class: "swatch", width: 14, height: 14, "aria-hidden": "true" }, svg("rect", { width: 14, height: 14, class: swatch })), " ", said,
      meaning ? el("span", { class: "meaning muted" }, ` ${meaning}`) : null),
    el("td", { class: "number" }, pods), values.map((value) => el("td", { class: "number" }, value)));
  const shown = resources.filter((resource) => resource !== "pods");
  return el("div", { class: "scroll" }, el("table", { class: "amounts" },
    el("caption", { class: "unseen" }, "What the room is used for"),
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Used by"), el("th", { scope: "col", class: "number" }, "Pods"), shown.map((resource) => el("th", { scope: "col", class: "number" }, resource)))),
    el("tbody", {},
      there.map((part) => line(`part part-${part}`, ROLES[part][0], ROLES[part][1], parts[part].pods, shown.map((resource) => amount(resource, parts[part].amounts[resource] ?? 0)))),
      line("room", "free before", "", "", shown.map((resource) => amount(resource, free(before, resource)))),
      line("room", `free ${afterwards}`, "", "", shown.map((resource) => amount(resource, free(after, resource)))))));
}
