// Paging of long lists: items that are not shown yet have no elements.

import { el } from "./dom.js";

export const FIRST = 100;
export const STEP = 400;

/**
 * Put `items` into `parent`, made by `render(item, place)`: the first ones now, more on demand.
 * Returns the button's paragraph, for after the list, and `showTo(place)`, which shows at least up to there.
 */
export function slices(parent, items, render, noun, first = FIRST) {
  let shown = 0;
  const button = el("button", { type: "button", onclick: () => more(shown + STEP, true) });
  const line = el("p", { class: "more" }, button);

  function more(beyond, focus = false) {
    const from = shown;
    shown = Math.min(items.length, beyond);
    const made = document.createDocumentFragment();
    for (let place = from; place < shown; place++) made.append(render(items[place], place));
    parent.append(made);
    const left = items.length - shown;
    line.hidden = left === 0;
    button.textContent = `Show ${Math.min(left, STEP)} more ${noun} (${left.toLocaleString("en")} not shown)`;
    if (focus) parent.children[from]?.querySelector("button, a")?.focus({ preventScroll: true });
  }

  more(first);
  return { line, showTo: (place) => place >= shown && more(Math.ceil((place + 1) / STEP) * STEP) };
}
