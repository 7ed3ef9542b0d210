// Make elements. Rule: text is only ever text: nothing here, or anywhere on this page, parses markup.

const SVG = "http://www.w3.org/2000/svg";

// Characters that are not seen, or that change how their neighbours are seen: controls, bidi overrides, zero widths,
// line separators, halves of pairs, private use.
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Co}\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0]/gu;

const escaped = (character) =>
  character.codePointAt(0) > 0xffff
    ? `\\u{${character.codePointAt(0).toString(16)}}`
    : `\\u${character.codePointAt(0).toString(16).padStart(4, "0")}`;

/** The text with such characters spelt out, for attributes and titles. */
export const visible = (text) => String(text).replace(UNSEEN, escaped);

/** The text as nodes: such characters stand out. */
function textNodes(text) {
  const nodes = [];
  let from = 0;
  for (const match of text.matchAll(UNSEEN)) {
    if (match.index > from) nodes.push(document.createTextNode(text.slice(from, match.index)));
    const mark = document.createElement("span");
    mark.className = "spelt";
    mark.textContent = escaped(match[0]);
    nodes.push(mark);
    from = match.index + match[0].length;
  }
  if (from < text.length || !nodes.length) nodes.push(document.createTextNode(text.slice(from)));
  return nodes;
}

/** Put children under an element: nodes, strings, numbers, arrays of these; null and false are left out. */
export function add(parent, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    if (child instanceof Node) parent.append(child);
    else parent.append(...textNodes(String(child)));
  }
  return parent;
}

function make(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : visible(value));
  }
  return add(element, ...children);
}

export const el = (tag, attributes = {}, ...children) => make(document.createElement(tag), attributes, children);
export const svg = (tag, attributes = {}, ...children) => make(document.createElementNS(SVG, tag), attributes, children);

/** The name of something in the cluster: kept apart from the direction of the text around it. */
export const name = (text, attributes = {}) => el("bdi", { class: "name", ...attributes }, text);

const TIME = /(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d(?:\.\d+)?)Z?/g;

/** Prose with times in it: `2026-03-02T05:00:00Z` as a date and a time, neither of which is broken over two lines. */
export function prose(text) {
  const parts = [];
  let from = 0;
  for (const found of text.matchAll(TIME)) {
    const unbroken = (one) => el("span", { class: "unbroken" }, one);
    parts.push(text.slice(from, found.index), unbroken(found[1]), " ", unbroken(found[2]));
    from = found.index + found[0].length;
  }
  return el("bdi", { class: "name" }, parts, text.slice(from));
}

/** A name in camel case that may be broken between its words. */
export const breakable = (word) => word.split(/(?=[A-Z][a-z])/).flatMap((part, place) => (place ? [el("wbr"), part] : [part]));

/** Text for those who do not see the page. */
export const unseen = (text) => el("span", { class: "unseen" }, text);

export const replace = (parent, ...children) => {
  parent.replaceChildren();
  return add(parent, ...children);
};

export const byId = (id) => document.getElementById(id);

/** Say something to a screen reader, once. */
export const announce = (text) => replace(byId("announcer"), text);

/** What the browser shows as the name of the page. */
export const entitle = (text) => (document.title = visible(`${text} · kube-scheduler extender`));

/** A term and what there is to say of it, for `dl`; nothing where there is nothing. */
export const fact = (term, ...said) =>
  said.flat().some((one) => one !== null && one !== undefined && one !== false && one !== "")
    ? [el("dt", {}, term), el("dd", {}, ...said)]
    : [];

export const alert = (...said) => el("p", { class: "alert", role: "alert" }, ...said);

/** A table: headings are strings or elements `th`; rows are arrays of cells, or rows. */
export function table(caption, headings, rows, attributes = {}) {
  const head = headings.map((one) => (one instanceof Node ? one : el("th", { scope: "col" }, one)));
  return el(
    "table",
    attributes,
    el("caption", {}, caption),
    el("thead", {}, el("tr", {}, head)),
    el("tbody", {}, rows.map((row) => (row instanceof Node ? row : el("tr", {}, row.map(cell))))),
  );
}

export const cell = (content) =>
  content instanceof Node && /^(TD|TH)$/.test(content.tagName)
    ? content
    : el("td", { class: typeof content === "number" ? "number" : null }, content);

/** Something wide scrolls in itself, and can be scrolled with the keyboard; the page does not. */
export const scrolling = (label, content, attributes = {}) =>
  el("div", { class: "scroll", role: "region", "aria-label": label, tabindex: "0", ...attributes }, content);
