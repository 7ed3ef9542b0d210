// The list of decisions, refreshed every two seconds while it shows the first page. The service filters and sorts all
// kept decisions; the page has one page of them.
// Rule: the list does not move while it is hovered, focused or scrolled: new decisions wait behind a button.

import * as api from "./api.js";
import { announce, byId, el, name, prose, replace } from "./dom.js";
import { toDecision, toList } from "./route.js";
import { relative } from "./times.js";
import { count, decisionOutcomes, decisionTag, milliseconds } from "./words.js";

const REFRESH_MILLISECONDS = 2000;
const PAGE = 100; // decisions per request
const TYPING_PAUSE_MILLISECONDS = 250; // before the filters are applied

export function createList() {
  const list = byId("list");
  const message = byId("list-message");
  const fresh = byId("list-new");
  const older = byId("list-older");
  const newer = byId("list-newer");
  const first = byId("list-first"); // what to do before kube-scheduler has called
  const form = byId("filters");
  const rows = new Map(); // id and time -> element
  let latest = { decisions: [], matching: 0, kept: 0 }; // the last response
  let offset = 0; // of the page shown
  let isShown = false;
  let timer = 0;
  let inFlight = null; // AbortController of the request in flight

  for (const [outcome, label] of decisionOutcomes) form.elements.outcome.append(el("option", { value: outcome }, label));

  const wanted = () => {
    const given = Object.fromEntries(new FormData(form));
    return Object.fromEntries(Object.entries(given).map(([key, value]) => [key, value.trim()]));
  };

  // --- requests ---

  /** Ask for the page that is shown; `moved`: show another page or other filters, whether the list is in use or not. */
  async function refresh(moved = false) {
    clearTimeout(timer);
    inFlight?.abort();
    const own = (inFlight = new AbortController());
    try {
      const answer = await api.decisions({ ...wanted(), limit: PAGE, offset }, own.signal);
      if (own !== inFlight) return;
      latest = answer;
      message.classList.remove("bad");
      if (moved) show();
      else update();
    } catch (error) {
      if (own !== inFlight || error.name === "AbortError") return;
      message.classList.add("bad");
      replace(message, `${error.message} The list may be stale.`);
    }
    schedule();
  }

  const schedule = () => {
    clearTimeout(timer);
    if (isShown && !document.hidden && offset === 0) timer = setTimeout(refresh, REFRESH_MILLISECONDS);
  };

  // --- rendering ---

  const keyOf = (one) => `${one.id} ${one.time}`; // ids start from 1 again after a restart
  const isInUse = () => list.matches(":hover") || list.contains(document.activeElement) || window.scrollY > 80;

  /** Show the new decisions, or only their number while the list is in use. */
  function update() {
    const added = latest.decisions.filter((one) => !rows.has(keyOf(one)));
    if (rows.size && added.length && isInUse()) {
      fresh.hidden = false;
      fresh.textContent = `Show ${count(added.length, "new decision")}`;
      describe();
      return;
    }
    if (rows.size && added.length) announce(count(added.length, "new decision"));
    show();
  }

  function show() {
    fresh.hidden = true;
    const kept = new Set(latest.decisions.map(keyOf));
    const before = positions();
    for (const [key, row] of rows) {
      if (kept.has(key)) continue;
      row.remove();
      rows.delete(key);
    }
    let next = list.firstElementChild;
    for (const one of latest.decisions) {
      const key = keyOf(one);
      const row = rows.get(key) ?? rowOf(one);
      rows.set(key, row);
      if (row === next) next = next.nextElementSibling;
      else list.insertBefore(row, next);
    }
    slide(before);
    describe();
    newer.hidden = offset === 0;
    older.hidden = offset + latest.decisions.length >= latest.matching;
  }

  function describe() {
    const { decisions, matching, kept } = latest;
    first.hidden = kept > 0;
    byId("list-table").hidden = !decisions.length;
    const range = decisions.length < matching ? `${offset + 1}–${offset + decisions.length} of ` : "";
    const filtered = matching < kept ? `that match, of ${kept.toLocaleString("en")} kept` : "kept";
    if (!kept) replace(message, "No decisions yet.");
    else if (!matching) replace(message, `None of ${count(kept, "kept decision")} matches.`);
    else replace(message, `${range}${count(matching, "decision")} ${filtered}${offset ? "; this page does not refresh itself" : ""}.`);
  }

  /** Return the positions of the visible rows, from which they slide to their new ones. */
  function positions() {
    if (!rows.size || matchMedia("(prefers-reduced-motion: reduce)").matches) return null;
    const found = new Map();
    for (const row of list.children) {
      const { top } = row.getBoundingClientRect();
      if (top > window.innerHeight) break;
      found.set(row, top);
    }
    return found;
  }

  function slide(before) {
    for (const [row, top] of before ?? []) {
      const by = row.isConnected ? top - row.getBoundingClientRect().top : 0;
      if (by) row.animate([{ transform: `translateY(${by}px)` }, { transform: "none" }], { duration: 180, easing: "ease-out" });
    }
  }

  // --- events ---

  fresh.addEventListener("click", () => {
    show();
    window.scrollTo(0, 0);
    list.querySelector("a")?.focus({ preventScroll: true });
  });
  for (const [button, step] of [[older, PAGE], [newer, -PAGE]]) {
    button.addEventListener("click", async () => {
      offset += step;
      await refresh(true);
      window.scrollTo(0, 0);
      list.querySelector("a")?.focus({ preventScroll: true });
    });
  }
  list.addEventListener("keydown", (event) => {
    const step = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
    const other = step && event.target.closest("li")?.[step]?.querySelector("a");
    if (!other) return;
    event.preventDefault();
    other.focus();
  });
  let typing = 0;
  form.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => {
      history.replaceState(history.state, "", toList(wanted()));
      offset = 0; // the first of all that match, also of those that no page has shown
      refresh(true);
    }, TYPING_PAUSE_MILLISECONDS);
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  document.addEventListener("visibilitychange", () => isShown && !document.hidden && refresh());

  return {
    title: () => "Decisions",
    enter(route) {
      for (const field of form.elements) if (field.name) field.value = route.given.get(field.name) ?? field.querySelector("option")?.value ?? "";
      isShown = true;
      refresh();
    },
    leave() {
      isShown = false;
      inFlight?.abort();
      inFlight = null;
      clearTimeout(timer);
    },
  };
}

function rowOf(one) {
  const tag = decisionTag(one.outcome);
  return el("li", {},
    el("a", { href: toDecision(one.id), class: "decision-row" },
      relative(one.time),
      el("span", { class: `tag verb-${one.verb}` }, one.verb),
      name(one.pod, { class: "name pod" }),
      el("span", { class: "sentence" },
        tag ? [el("span", { class: `tag outcome-${one.outcome}` }, tag), " "] : null,
        prose(one.sentence)),
      el("span", { class: "took muted", title: "How long the decision took" }, milliseconds(one.milliseconds)),
    ));
}
