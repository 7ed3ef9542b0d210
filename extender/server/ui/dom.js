// Create elements. Rule: text is only ever text: nothing here, or anywhere on this page, parses markup.

const SVG = "http://www.w3.org/2000/svg";

// Characters that are invisible, or that change how their neighbours are displayed: controls, bidi overrides, zero
// widths, line separators, lone surrogates, private use.
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Co}\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0]/gu;

const escaped = (character) =>
  character.codePointAt(0) > 0xffff
    ? `\\u{${character.codePointAt(0).toString(16)}}`
    : `\\u${character.codePointAt(0).toString(16).padStart(4, "0")}`;

/** Return the text with invisible characters escaped, for attributes and titles. */
export const visible = (text) => String(text).replace(INVISIBLE, escaped);

/** Return the text as nodes, with invisible characters escaped and highlighted. */
function textNodes(text) {
  const nodes = [];
  let from = 0;
  for (const match of text.matchAll(INVISIBLE)) {
    if (match.index > from) nodes.push(document.createTextNode(text.slice(from, match.index)));
    const mark = document.createElement("span");
    mark.className = "escaped";
    mark.textContent = escaped(match[0]);
    nodes.push(mark);
    from = match.index + match[0].length;
  }
  if (from < text.length || !nodes.length) nodes.push(document.createTextNode(text.slice(from)));
  return nodes;
}

/** Append children to an element: nodes, strings, numbers, arrays of these; null, undefined and false are skipped. */
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

/** Return the name of a cluster object, isolated from the text direction around it. */
export const name = (text, attributes = {}) => el("bdi", { class: "name", ...attributes }, text);

const TIME = /(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d(?:\.\d+)?)Z?/g;

/** Return text in which each time (`2026-03-02T05:00:00Z`) is a date and a time that do not break across lines. */
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

/** Return a camel-case name with line-break opportunities between its words. */
export const breakable = (word) => word.split(/(?=[A-Z][a-z])/).flatMap((part, place) => (place ? [el("wbr"), part] : [part]));

/** Return a taint, a label or another `domain/key=value:effect`, which may break after each of its parts. */
export const parted = (text) => el("bdi", { class: "name" }, text.split(/(?<=[/=:])/).map((part, place) => [place ? el("wbr") : null, part]));

/** Return text for screen readers only. */
export const visuallyHidden = (text) => el("span", { class: "visually-hidden" }, text);

export const replace = (parent, ...children) => {
  parent.replaceChildren();
  return add(parent, ...children);
};

export const byId = (id) => document.getElementById(id);

/** Announce a text to screen readers, once. */
export const announce = (text) => replace(byId("announcer"), text);

/** Set the title of the browser tab. */
export const setTitle = (text) => (document.title = visible(`${text} · kube-scheduler extender`));

/** Return a term and its description for `dl`; nothing if the description is empty. */
export const fact = (term, ...description) =>
  description.flat(Infinity).some((one) => one !== null && one !== undefined && one !== false && one !== "")
    ? [el("dt", {}, term), el("dd", {}, ...description)]
    : [];

export const alert = (...message) => el("p", { class: "alert", role: "alert" }, ...message);

/**
 * Return a table whose rows become blocks on a narrow screen, each cell with its heading.
 * `headings`: texts, or [text, second line]; `rows`: an array of rows, or a `tbody`; a row is made by `foldingRow`.
 */
export const foldingTable = (headings, rows, attributes = {}) =>
  el("table", { ...attributes, class: `folds ${attributes.class ?? ""}` },
    el("thead", {}, el("tr", {}, headings.map((one) => [one].flat()).map(([text, more]) => el("th", { scope: "col" }, text, more ? el("span", { class: "better" }, more) : null)))),
    rows instanceof Node ? rows : el("tbody", {}, rows));

export const foldingRow = (headings, cells) =>
  el("tr", {}, cells.map((content, place) => (place ? el("td", { "data-label": [headings[place]].flat()[0], class: isEmpty(content) ? "empty" : null }, content) : el("th", { scope: "row" }, content))));

const isEmpty = (content) => [content].flat(Infinity).every((one) => one === null || one === undefined || one === "");

/** Return a table: headings are strings or `th` elements; rows are arrays of cells, or `tr` elements. */
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

/** Wrap wide content in a region that scrolls sideways, also with the keyboard, and says so while there is more. */
export function scrolling(label, content, attributes = {}) {
  const region = el("div", { class: "scroll", role: "region", "aria-label": label, tabindex: "0", ...attributes }, content);
  const hint = el("p", { class: "scroll-hint", hidden: true }, "There are more columns: scroll sideways →");
  const look = () => (hint.hidden = region.scrollLeft + region.clientWidth >= region.scrollWidth - 2);
  region.addEventListener("scroll", look, { passive: true });
  const sizes = new ResizeObserver(look);
  sizes.observe(region);
  for (const child of region.children) sizes.observe(child);
  return [hint, region];
}
