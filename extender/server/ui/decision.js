// One decision: the outcome and the criterion that decided, then every node that was considered.

import * as api from "./api.js";
import { alert, byId, el, setTitle, fact, name, prose, replace, visuallyHidden } from "./dom.js";
import { candidates } from "./candidates.js";
import { byStatus, notCandidates } from "./groups.js";
import { budgetsTable } from "./node.js";
import { toDecision, toList, toWhatIf } from "./route.js";
import { scores } from "./scores.js";
import { exactTime, relative } from "./times.js";
import { amounts, count, decisionTag, milliseconds } from "./words.js";

const MAX_NAMES_IN_MESSAGE = 10;

export function createDecision() {
  const view = byId("view-decision");
  let shown = null; // { id, pod, open: names of open nodes, sections }

  async function load(route) {
    const own = (shown = { id: route.id, open: new Set(), sections: [] });
    replace(view, back(), el("h1", { tabindex: "-1" }, route.id), el("p", { class: "muted loading" }, "loading …"));
    let decision;
    try {
      decision = await api.decision(route.id);
    } catch (error) {
      if (shown === own) fail(route.id, error);
      return;
    }
    if (shown !== own) return;
    own.pod = decision.pod;
    const hadFocus = view.contains(document.activeElement);
    draw(decision, own);
    if (hadFocus) view.querySelector("h1").focus({ preventScroll: true });
    sync(route, true);
    setTitle(`${decision.id}: ${decision.pod}`);
  }

  function fail(id, error) {
    const hadFocus = view.contains(document.activeElement);
    const why = error.status === 404
      ? "This decision is not kept: the service keeps the latest decisions of each verb in memory (debug.decisions) and loses them at a restart."
      : error.message;
    replace(view, back(), el("h1", { tabindex: "-1" }, id), alert(why),
      error.status === 404 ? null : el("p", {}, el("button", { type: "button", onclick: () => load({ id, given: new URLSearchParams(location.hash.split("?")[1]) }) }, "Try again")));
    if (hadFocus) view.querySelector("h1").focus({ preventScroll: true });
  }

  /** Open exactly the nodes that the address names; scroll to the first one when the decision is opened by its address. */
  function sync(route, arrives = false) {
    const wanted = route.given.getAll("node");
    view.querySelector("#find-message")?.replaceChildren();
    for (const open of [...shown.open]) if (!wanted.includes(open)) toggle(open, false);
    const missing = wanted.filter((one) => !shown.open.has(one));
    missing.forEach((one, place) => reveal(one, arrives && place === 0));
  }

  function reveal(node, scrolls) {
    const row = shown.sections.reduce((found, section) => found ?? section.reveal(node), null);
    if (row && scrolls) row.scrollIntoView({ block: "start" });
    const message = view.querySelector("#find-message");
    if (!row && message) explainMissing(node, message);
  }

  /** Say why the decision has no such node: the service knows whether the cluster has it. */
  async function explainMissing(node, message) {
    const own = shown;
    try {
      await api.node(own.id, node);
    } catch (error) {
      if (own !== shown) return;
      replace(message, `${error.message}. `, error.status === 404 ? el("a", { href: toList({ node, pod: own.pod }) }, "Decisions about this pod and node") : null);
    }
  }

  const toggle = (node, isOpen) => shown.sections.some((section) => section.toggle?.(node, isOpen));

  /** The decision, and the callback that keeps the address in step with the open nodes. */
  const contextOf = (decision, own) => ({
    decision,
    opened(node, isOpen, byReader) {
      if (isOpen) own.open.add(node);
      else own.open.delete(node);
      if (byReader) history.pushState(null, "", toDecision(decision.id, [...own.open]));
    },
  });

  function draw(decision, own) {
    const about = contextOf(decision, own);
    const nodes = decision.nodes ?? [];
    if (decision.verb === "preempt") own.sections = [candidates(about, nodes), notCandidates(about, nodes)];
    else if (decision.verb === "filter") own.sections = [byStatus(about, nodes)];
    else own.sections = [scores(about, nodes)];
    own.sections = own.sections.filter(Boolean);
    replace(view,
      back(),
      el("h1", { tabindex: "-1" }, visuallyHidden(`${decision.id}: `), prose(decision.sentence)),
      decision.error ? alert(decision.outcome === "passthrough" ? "Passed through: " : "The decision failed: ", decision.error) : null,
      facts(decision),
      el("p", { class: "actions" },
        el("a", { class: "button", href: toWhatIf(decision.id) }, "Simulate this pod"), " ",
        el("a", { href: api.decisionPath(decision.id) }, "The decision as JSON")),
      nodes.length > 1 ? finder(nodes) : null,
      rejected(decision),
      budgets(decision, nodes),
      own.sections.map((section) => section.element),
    );
  }

  function finder(nodes) {
    const names = nodes.map((one) => one.name);
    const message = el("p", { id: "find-message", class: "muted", "aria-live": "polite" });
    const field = el("input", { name: "node", type: "search", size: 24, required: true, autocomplete: "off" });
    const onsubmit = (event) => {
      event.preventDefault();
      const wanted = field.value.trim();
      const alike = names.filter((one) => one.includes(wanted));
      const only = names.includes(wanted) ? wanted : alike.length === 1 ? alike[0] : null;
      if (only !== null) {
        replace(message, "");
        if (!shown.open.has(only)) history.pushState(null, "", toDecision(shown.id, [...shown.open, only]));
        reveal(only, true);
      } else if (alike.length) {
        replace(message, `${count(alike.length, "node")} match: `, alike.slice(0, MAX_NAMES_IN_MESSAGE).join(", "), alike.length > MAX_NAMES_IN_MESSAGE ? " …" : "");
      } else {
        explainMissing(wanted, message);
      }
    };
    return el("form", { class: "filters", id: "find", role: "search", onsubmit },
      el("label", { class: "inline" }, "Why, or why not, node ", field), el("button", {}, "Show"), message);
  }

  return {
    title: (route) => route.id,
    enter(route) {
      if (shown?.id === route.id) sync(route);
      else load(route);
    },
    leave() {
      shown = null;
      replace(view);
    },
  };
}

const back = () => el("p", { class: "back" }, el("a", { href: toList(), id: "back" }, "← All decisions"));

function facts(decision) {
  const { incoming = {}, policies = [], scheduler } = decision;
  return el("dl", { class: "facts" },
    fact("Pod", name(decision.pod), `, priority ${(decision.priority ?? 0).toLocaleString("en")}`,
      incoming.requests && Object.keys(incoming.requests).length ? `; requests ${amounts(incoming.requests)}` : "; requests nothing",
      el("span", { class: "muted" }, `; UID ${decision.uid}`)),
    fact("Call", relative(decision.time), ` (${exactTime(decision.time)}), ${decision.verb}, took ${milliseconds(decision.milliseconds)}`),
    fact("Mode", decisionTag(decision.outcome) && el("span", { class: `tag outcome-${decision.outcome}` }, decisionTag(decision.outcome))),
    fact("kube-scheduler", scheduler && schedulerOf(scheduler)),
    fact("Policies", policies.length ? policies.map((one, place) => [place ? "; " : null, one]) : "kube-scheduler’s own"),
    fact("Resource claims", (incoming.claims ?? []).map((one, place) => [place ? el("br") : null, name(one.name), one.claim ? [" (", name(one.claim), ")"] : null, ": ", name(one.note)])),
    fact("Cluster cache", decision.cache),
    fact("Not evaluated", decision.notEvaluated?.length ? `${decision.notEvaluated.join(", ")}: left to kube-scheduler` : null),
  );
}

/** The version whose verdicts the decision follows, where it was found, and the pod's profile. */
function schedulerOf({ version, versionSource, featureGates = {}, profile }) {
  const gates = Object.entries(featureGates).map(([gate, value]) => `, ${gate}=${value}`).join("");
  return `${version} (${versionSource})${gates}, ${profile ? `profile ${profile}` : "no profile: not ours"}`;
}

function rejected(decision) {
  const found = Object.entries(decision.rejected ?? {});
  if (!found.length) return null;
  return el("section", { id: "rejected" },
    el("h2", {}, "Rejected by the guard"),
    el("p", {}, "The final check of the answer found that these candidates violate its rules and removed them. This is a defect: please report it."),
    el("ul", {}, found.map(([node, rule]) => el("li", {}, name(node), ": ", rule))));
}

/** The victims of the chosen nodes by disruption budget. */
function budgets(decision, nodes) {
  if (decision.verb !== "preempt") return null;
  const chosen = nodes.filter((node) => node.outcome === "chosen");
  if (!chosen.length) return null;
  return el("section", { id: "budgets" },
    el("h2", {}, "Disruption budgets"),
    chosen.map((node) => node.budgets?.length
      ? budgetsTable(node.budgets, `Disruption budgets of the victims on ${node.name}`)
      : el("p", {}, "The victims on ", name(node.name), " count against no disruption budget.")));
}
