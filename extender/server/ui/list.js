// The list of decisions, refreshed every two seconds. Rule: the list does not move while it is hovered, focused or
// scrolled: new decisions wait behind a button.

import * as api from "./api.js";
import { add, announce, byId, el, prose, replace } from "./dom.js";
import { toDecision, toList } from "./route.js";
import { count, decisionTag, longTime, milliseconds, shortTime } from "./words.js";

const REFRESH_MILLISECONDS = 2000;
const LIMITS = [100, 300, 1000]; // decisions per request; "Show older decisions" takes the next one
const TYPING_PAUSE_MILLISECONDS = 250; // before the filters are applied

export function createList() {
  const list = byId("list");
  const message = byId("list-message");
  const fresh = byId("list-new");
  const older = byId("list-more");
  const form = byId("filters");
  const rows = new Map(); // id and time -> element
  let latest = []; // decisions of the last response
  let limit = LIMITS[0];
  let isShown = false;
  let timer = 0;
  let inFlight = null; // AbortController of the request in flight

  const wanted = () => {
    const given = Object.fromEntries(new FormData(form));
    return Object.fromEntries(Object.entries(given).map(([key, value]) => [key, value.trim()]));
  };

  // --- requests ---

  async function refresh() {
    clearTimeout(timer);
    inFlight?.abort();
    const own = (inFlight = new AbortController());
    try {
      const { text: _, ...filters } = wanted();
      const answer = await api.decisions({ ...filters, limit }, own.signal);
      if (own !== inFlight) return;
      latest = answer.decisions ?? [];
      message.classList.remove("bad");
      update();
    } catch (error) {
      if (own !== inFlight || error.name === "AbortError") return;
      message.classList.add("bad");
      replace(message, `${error.message} The list may be stale.`);
    }
    schedule();
  }

  const schedule = () => {
    clearTimeout(timer);
    if (isShown && !document.hidden) timer = setTimeout(refresh, REFRESH_MILLISECONDS);
  };

  // --- rendering ---

  const matching = () => {
    const text = wanted().text.toLowerCase();
    return latest.filter((one) => !text || `${one.id} ${one.sentence} ${one.uid}`.toLowerCase().includes(text));
  };
  const keyOf = (one) => `${one.id} ${one.time}`; // ids start from 1 again after a restart
  const isInUse = () => list.matches(":hover") || list.contains(document.activeElement) || window.scrollY > 80;

  /** Show the new decisions, or only their number while the list is in use. */
  function update() {
    const found = matching();
    const added = found.filter((one) => !rows.has(keyOf(one)));
    if (rows.size && added.length && isInUse()) {
      fresh.hidden = false;
      fresh.textContent = `Show ${count(added.length, "new decision")}`;
      describe(found);
      return;
    }
    if (rows.size && added.length) announce(count(added.length, "new decision"));
    show(found);
  }

  function show(found) {
    fresh.hidden = true;
    const kept = new Set(found.map(keyOf));
    const before = positions();
    for (const [key, row] of rows) {
      if (kept.has(key)) continue;
      row.remove();
      rows.delete(key);
    }
    let next = list.firstElementChild;
    for (const one of found) {
      const key = keyOf(one);
      const row = rows.get(key) ?? rowOf(one);
      rows.set(key, row);
      if (row === next) next = next.nextElementSibling;
      else list.insertBefore(row, next);
    }
    slide(before);
    describe(found);
    older.hidden = latest.length < limit || limit === LIMITS.at(-1);
  }

  function describe(found) {
    const filtered = Object.values(wanted()).some(Boolean);
    if (!found.length) replace(message, filtered ? "No kept decision matches." : "No decisions yet: kube-scheduler has not called the extender.");
    else replace(message, `${count(found.length, "decision")}, latest first. Times are UTC.`);
    if (latest.length >= limit && wanted().text) add(message, ` Searched: the latest ${limit}.`);
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
    show(matching());
    window.scrollTo(0, 0);
    list.querySelector("a")?.focus({ preventScroll: true });
  });
  older.addEventListener("click", () => {
    limit = LIMITS.find((one) => one > limit) ?? limit;
    refresh();
  });
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
      limit = LIMITS[0];
      show(matching());
      refresh();
    }, TYPING_PAUSE_MILLISECONDS);
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  document.addEventListener("visibilitychange", () => isShown && !document.hidden && refresh());

  return {
    title: () => "Decisions",
    enter(route) {
      for (const field of form.elements) if (field.name) field.value = route.given.get(field.name) ?? "";
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
      el("time", { datetime: one.time, title: longTime(one.time) }, shortTime(one.time)),
      el("span", { class: `tag verb-${one.verb}` }, one.verb),
      el("span", { class: "sentence" },
        tag ? [el("span", { class: `tag outcome-${one.outcome}` }, tag), " "] : null,
        prose(one.sentence)),
      el("span", { class: "took muted" }, milliseconds(one.milliseconds)),
    ));
}

