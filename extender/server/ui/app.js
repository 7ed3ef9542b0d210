// Switch between the views. Rule: the address names the view, so that reload, links and the back button keep the place.

import { announce, byId, setTitle } from "./dom.js";
import { createClusterNode } from "./cluster-node.js";
import { createDecision } from "./decision.js";
import { createList } from "./list.js";
import { createNodes } from "./nodes.js";
import { createPending } from "./pending.js";
import { createPod } from "./pod.js";
import { parse } from "./route.js";
import * as status from "./status.js";
import { createWhatIf } from "./what-if.js";

const VIEWS = {
  pending: { view: createPending(), section: byId("view-pending"), link: byId("to-pending") },
  pod: { view: createPod(), section: byId("view-pod"), link: byId("to-pending") },
  nodes: { view: createNodes(), section: byId("view-nodes"), link: byId("to-nodes") },
  node: { view: createClusterNode(), section: byId("view-node"), link: byId("to-nodes") },
  decisions: { view: createList(), section: byId("view-decisions"), link: byId("to-decisions") },
  decision: { view: createDecision(), section: byId("view-decision"), link: byId("to-decisions") },
  "what-if": { view: createWhatIf(), section: byId("view-what-if"), link: byId("to-what-if") },
};

let shown = null;

function show() {
  const route = parse(location.hash);
  const isMove = shown !== route.view;
  const { view, section } = VIEWS[route.view];
  if (isMove) switchTo(route.view);
  setTitle(view.title(route));
  view.enter(route);
  if (isMove) placeFocus(section, route.view);
}

function switchTo(next) {
  if (shown) {
    VIEWS[shown].view.leave();
    VIEWS[shown].section.hidden = true;
  }
  for (const { link } of Object.values(VIEWS)) link.removeAttribute("aria-current");
  VIEWS[next].section.hidden = false;
  VIEWS[next].link.setAttribute("aria-current", "page");
}

/** Restore the scroll position and the focus of the list; other views start at the top. */
function placeFocus(section, view) {
  const isFirst = shown === null;
  shown = view;
  if (isFirst) return;
  const isList = view === "decisions";
  window.scrollTo(0, isList ? listPosition.top : 0);
  const target = isList && listPosition.focus?.isConnected ? listPosition.focus : section.querySelector("h1");
  target?.focus({ preventScroll: true });
  announce(document.title);
}

// Saved on every scroll and focus change: on `hashchange` the browser may have scrolled already.
const listPosition = { top: 0, focus: null };
const isListShown = () => shown === "decisions" && parse(location.hash).view === "decisions";
addEventListener("scroll", () => isListShown() && (listPosition.top = window.scrollY), { passive: true });
document.addEventListener("focusin", (event) => isListShown() && VIEWS.decisions.section.contains(event.target) && (listPosition.focus = event.target));

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
