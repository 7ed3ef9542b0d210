// Paging of long lists: only the items of one page have elements, so that no page of the browser has thousands.

import { el } from "./dom.js";

export const FIRST = 100;

/**
 * Put one page of `items` into `parent`, made by `render(item, place)`.
 * Returns the paragraph with the buttons, for after the list, and `showTo(place)`, which shows the page of that item.
 */
export function slices(parent, items, render, noun, size = FIRST) {
  const pages = new Map(); // page that was left -> its elements, with all that was opened there
  let page = -1;
  const previous = el("button", { type: "button", onclick: () => go(page - 1, true) }, "‹ Previous");
  const next = el("button", { type: "button", onclick: () => go(page + 1, true) }, "Next ›");
  const where = el("span", { class: "muted" });
  const line = el("p", { class: "more", hidden: items.length <= size }, previous, " ", where, " ", next);

  function go(wanted, byReader = false) {
    if (wanted === page) return;
    if (page >= 0) pages.set(page, [...parent.childNodes]);
    page = wanted;
    const from = page * size;
    const end = Math.min(items.length, from + size);
    parent.replaceChildren(...(pages.get(page) ?? items.slice(from, end).map((item, place) => render(item, from + place))));
    where.textContent = `${(from + 1).toLocaleString("en")}–${end.toLocaleString("en")} of ${items.length.toLocaleString("en")} ${noun}`;
    previous.disabled = page === 0;
    next.disabled = end === items.length;
    if (byReader) parent.querySelector("button, a, summary")?.focus({ preventScroll: true });
  }

  go(0);
  return { line, showTo: (place) => go(Math.floor(place / size)) };
}
