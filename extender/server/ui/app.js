// The page: which view is shown is written in the address, so that a reload, a link and the back button keep the place.

import { announce, byId, entitle } from "./dom.js";
import { createDecision } from "./decision.js";
import { createList } from "./list.js";
import { parse } from "./route.js";
import * as status from "./status.js";
import { createWhatIf } from "./what-if.js";

const VIEWS = {
  decisions: { view: createList(), section: byId("view-decisions"), link: byId("to-decisions") },
  decision: { view: createDecision(), section: byId("view-decision"), link: byId("to-decisions") },
  "what-if": { view: createWhatIf(), section: byId("view-what-if"), link: byId("to-what-if") },
};

let shown = null;

function show() {
  const route = parse(location.hash);
  const isMove = shown !== route.view;
  const { view, section } = VIEWS[route.view];
  if (isMove) swap(route.view);
  entitle(view.title(route));
  view.enter(route);
  if (isMove) arrive(section, route.view);
}

function swap(next) {
  if (shown) {
    VIEWS[shown].view.leave();
    VIEWS[shown].section.hidden = true;
  }
  for (const { link } of Object.values(VIEWS)) link.removeAttribute("aria-current");
  VIEWS[next].section.hidden = false;
  VIEWS[next].link.setAttribute("aria-current", "page");
}

/** The list is found as it was left; the others start at their top. */
function arrive(section, view) {
  const isFirst = shown === null;
  shown = view;
  if (isFirst) return;
  const isList = view === "decisions";
  window.scrollTo(0, isList ? left.top : 0);
  const target = isList && left.focus?.isConnected ? left.focus : section.querySelector("h1");
  target?.focus({ preventScroll: true });
  announce(document.title);
}

// Noted as it happens: when the address changes it may be too late.
const left = { top: 0, focus: null };
const isListShown = () => shown === "decisions" && parse(location.hash).view === "decisions";
addEventListener("scroll", () => isListShown() && (left.top = window.scrollY), { passive: true });
document.addEventListener("focusin", (event) => isListShown() && VIEWS.decisions.section.contains(event.target) && (left.focus = event.target));

byId("skip").addEventListener("click", (event) => {
  event.preventDefault();
  byId("main").focus();
});
document.addEventListener("click", (event) => {
  const panel = byId("status");
  if (panel.open && !panel.contains(event.target)) panel.open = false;
});
document.addEventListener("keydown", (event) => {
  const panel = byId("status");
  if (event.key !== "Escape" || !panel.open) return;
  panel.open = false;
  panel.querySelector("summary").focus();
});

history.scrollRestoration = "manual";
addEventListener("hashchange", show);
show();
status.follow();
