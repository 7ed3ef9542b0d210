// The list of decisions, live. Rule: nothing moves under the reader: while the list is pointed at, holds the focus or is
// scrolled, what is new waits behind a button.

import * as api from "./api.js";
import { add, announce, byId, el, prose, replace } from "./dom.js";
import { toDecision, toList } from "./route.js";
import { count, DECISION_OUTCOMES, longTime, milliseconds, shortTime } from "./words.js";

const EVERY = 2000;
const LIMITS = [100, 300, 1000];
const TYPING = 250;

export function createList() {
  const list = byId("list");
  const said = byId("list-said");
  const fresh = byId("list-new");
  const older = byId("list-more");
  const form = byId("filters");
  const rows = new Map(); // id and time -> element
  let latest = []; // as asked for last
  let limit = LIMITS[0];
  let isShown = false;
  let timer = 0;
  let asking = null;

  const wanted = () => {
    const given = Object.fromEntries(new FormData(form));
    return Object.fromEntries(Object.entries(given).map(([key, value]) => [key, value.trim()]));
  };

  // --- asking ---

  async function ask() {
    clearTimeout(timer);
    asking?.abort();
    const own = (asking = new AbortController());
    try {
      const { text: _, ...filters } = wanted();
      const answer = await api.decisions({ ...filters, limit }, own.signal);
      if (own !== asking) return;
      latest = answer.decisions ?? [];
      said.classList.remove("bad");
      offer();
    } catch (error) {
      if (own !== asking || error.name === "AbortError") return;
      said.classList.add("bad");
      replace(said, `${error.message} What is listed may be old.`);
    }
    again();
  }

  const again = () => {
    clearTimeout(timer);
    if (isShown && !document.hidden) timer = setTimeout(ask, EVERY);
  };

  // --- showing ---

  const matching = () => {
    const text = wanted().text.toLowerCase();
    return latest.filter((one) => !text || `${one.id} ${one.sentence} ${one.uid}`.toLowerCase().includes(text));
  };
  const keyOf = (one) => `${one.id} ${one.time}`; // numbers start anew with the process
  const isRead = () => list.matches(":hover") || list.contains(document.activeElement) || window.scrollY > 80;

  /** Show what came, unless somebody is reading: then say how much came. */
  function offer() {
    const found = matching();
    const unseen = found.filter((one) => !rows.has(keyOf(one)));
    if (rows.size && unseen.length && isRead()) {
      fresh.hidden = false;
      fresh.textContent = `Show ${count(unseen.length, "new decision")}`;
      tell(found);
      return;
    }
    if (rows.size && unseen.length) announce(count(unseen.length, "new decision"));
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
    tell(found);
    older.hidden = latest.length < limit || limit === LIMITS.at(-1);
  }

  function tell(found) {
    const filtered = Object.values(wanted()).some(Boolean);
    if (!found.length) replace(said, filtered ? "No decision that is kept matches." : "No decision yet: kube-scheduler has not asked.");
    else replace(said, `${count(found.length, "decision")}, latest first. Times are UTC.`);
    if (latest.length >= limit && wanted().text) add(said, ` Searched: the latest ${limit}.`);
  }

  /** Where the visible rows are; they slide from there to where they will be. */
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

  // --- what the reader does ---

  fresh.addEventListener("click", () => {
    show(matching());
    window.scrollTo(0, 0);
    list.querySelector("a")?.focus({ preventScroll: true });
  });
  older.addEventListener("click", () => {
    limit = LIMITS.find((one) => one > limit) ?? limit;
    ask();
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
      ask();
    }, TYPING);
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  document.addEventListener("visibilitychange", () => isShown && !document.hidden && ask());

  return {
    title: () => "Decisions",
    enter(route) {
      for (const field of form.elements) if (field.name) field.value = route.given.get(field.name) ?? "";
      isShown = true;
      ask();
    },
    leave() {
      isShown = false;
      asking?.abort();
      asking = null;
      clearTimeout(timer);
    },
  };
}

function rowOf(one) {
  const tag = DECISION_OUTCOMES[one.outcome];
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

