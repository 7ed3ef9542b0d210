// A field for names (of nodes, of pods) with buttons for the names that match what was typed last.

import { alert, el, name, replace } from "./dom.js";

const TYPING_PAUSE_MILLISECONDS = 150;

/**
 * Return `{ field, element, names }`. `suggest(text)`: promise of names that match; `many`: the field takes several
 * names, separated by blanks or commas, else one. `chosen`: called after a name was picked.
 */
export function picker({ key, label, placeholder, suggest, many = false, size = 24, chosen = () => {} }) {
  const field = el("input", { name: key, size, spellcheck: "false", autocomplete: "off", placeholder });
  const matches = el("div", { class: "matches", role: "group", "aria-label": "Matching names", hidden: true });
  const element = el("div", { class: "picker" }, el("label", {}, `${label} `, field), matches);
  const names = () => field.value.split(/[\s,]+/).filter(Boolean);
  const typed = () => (many ? /[^\s,]*$/.exec(field.value)[0] : field.value.trim());
  let latest = null;
  let shown = [];
  let timer = 0;

  function pick(one) {
    field.value = many ? `${field.value.slice(0, field.value.length - typed().length)}${one} ` : one;
    matches.hidden = true;
    field.focus();
    chosen(one);
  }

  async function show() {
    const own = (latest = {});
    try {
      const found = await suggest(typed());
      if (own !== latest || !element.contains(document.activeElement)) return;
      const taken = new Set(many ? names() : [field.value.trim()]);
      const offered = found.filter((one) => !taken.has(one));
      if (offered.join() !== shown.join()) { // a button that is being pressed stays
        shown = offered;
        replace(matches, offered.map((one) => el("button", { type: "button", onclick: () => pick(one) }, name(one))));
      }
      matches.hidden = !offered.length;
    } catch (error) {
      if (own === latest) replace(matches, alert(error.message));
      shown = [];
    }
  }

  matches.addEventListener("mousedown", (event) => event.preventDefault()); // the field keeps the focus
  field.addEventListener("focus", show);
  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(show, TYPING_PAUSE_MILLISECONDS);
  });
  element.addEventListener("focusout", (event) => {
    if (!element.contains(event.relatedTarget)) matches.hidden = true;
  });
  element.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || matches.hidden) return;
    matches.hidden = true;
    field.focus();
  });
  return { field, element, names };
}
