// The pods that have no node yet, grouped by cause: the last result of the service, which makes a new one when asked.
// Rule: the list does not move while it is hovered or focused: a newer result waits behind a button.

import * as api from "./api.js";
import { add, alert, announce, byId, el, foldingRow, foldingTable, name, prose, replace, scrolling } from "./dom.js";
import { toList, toPending, toPod } from "./route.js";
import { slices } from "./slices.js";
import { relative } from "./times.js";
import { count, describeSource, joined, judgedBy, preemptionHelp } from "./words.js";

const REFRESH_MILLISECONDS = 10_000;
const WAIT_MILLISECONDS = 500; // while the first result is being made
const GROUPS = 25;
const PODS = 25; // of one cause
const EXAMPLES = 3;
const MATCHES = 8;
const TYPING_PAUSE_MILLISECONDS = 250;

let latest = null; // the last answer of the service, with its report
let first = null; // promise of the first report

async function ask(signal) {
  const answer = await api.pending(latest?.report ? latest.time : null, signal);
  latest = { ...answer, report: answer.report ?? latest?.report };
}

/** Wait until the service has made its first report, or says why it cannot. */
async function untilReported() {
  await ask();
  while (!latest.report && !latest.error) {
    await new Promise((resolve) => setTimeout(resolve, WAIT_MILLISECONDS));
    await ask();
  }
}

/** Return the names of pending pods that contain the text, for a picker. */
export async function pendingNames(text) {
  if (!latest?.report) await (first ??= untilReported().finally(() => (first = null)));
  return (latest.report?.pods ?? []).map((one) => one.pod).filter((one) => one.includes(text)).slice(0, MATCHES);
}

export function createPending() {
  const view = byId("view-pending");
  const text = el("input", { type: "search", name: "text", size: 26, placeholder: "namespace, name or cause" });
  const state = el("p", { class: "muted", id: "pending-state" });
  const fresh = el("button", { type: "button", hidden: true, onclick: () => show() }, "Show the newer result");
  const sentence = el("p", { class: "verdict", id: "pending-why" });
  const judge = el("p", { class: "muted source" });
  const list = el("div", { id: "pending-list" });
  const open = new Set(); // causes that are open
  let shownTime = "";
  let isShown = false;
  let timer = 0;
  let inFlight = null;

  replace(view, el("h1", { tabindex: "-1" }, "Pending pods"),
    el("form", { class: "filters", role: "search", onsubmit: (event) => event.preventDefault() }, el("label", {}, "Search ", text)),
    el("div", { class: "line" }, state, fresh), sentence, judge, list);

  let typing = 0;
  text.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => {
      history.replaceState(history.state, "", toPending({ text: text.value.trim() }));
      show();
    }, TYPING_PAUSE_MILLISECONDS);
  });

  async function refresh() {
    clearTimeout(timer);
    inFlight?.abort();
    const own = (inFlight = new AbortController());
    let pause = REFRESH_MILLISECONDS;
    try {
      await ask(own.signal);
      if (own !== inFlight) return;
      update();
      if (!latest.report) pause = WAIT_MILLISECONDS;
    } catch (error) {
      if (own !== inFlight || error.name === "AbortError") return;
      replace(state, alert(error.message, latest?.report ? " What follows is the last result." : ""));
    }
    if (isShown && !document.hidden) timer = setTimeout(refresh, pause);
  }

  const isInUse = () => list.matches(":hover") || list.contains(document.activeElement);

  function update() {
    const { report, time, error, errorAgeSeconds } = latest;
    if (!report) replace(state, error ? alert(error, ` (${Math.round(errorAgeSeconds)} s ago)`) : "evaluating the pending pods on every node …");
    else if (time === shownTime) describe();
    else if (shownTime && isInUse()) {
      fresh.hidden = false;
      describe();
    } else show();
  }

  function describe() {
    replace(state, "Evaluated ", relative(shownTime), latest.error ? [". The last attempt failed: ", latest.error] : ", refreshed while this page is open.");
  }

  function show() {
    const { report, time } = latest ?? {};
    if (!report) return;
    if (shownTime && time !== shownTime) announce("Pending pods refreshed");
    shownTime = time;
    fresh.hidden = true;
    describe();
    replace(sentence, prose(report.why));
    replace(judge, `${describeSource(report.source)}; judged by ${judgedBy(report)}. ${report.source.versionHint ?? ""}`);
    const wanted = text.value.trim().toLowerCase();
    const pods = report.pods.filter((one) => !wanted || `${one.pod} ${one.cause}`.toLowerCase().includes(wanted));
    const groups = [...Map.groupBy(pods, (one) => one.cause)];
    const body = el("div");
    const more = slices(body, groups, ([cause, several]) => groupElement(cause, several, open), "causes", GROUPS);
    replace(list, groups.length ? [body, more.line] : report.pods.length || report.omitted ? el("p", {}, "No pending pod matches.") : nothingPending(report));
  }

  document.addEventListener("visibilitychange", () => isShown && !document.hidden && refresh());

  return {
    title: () => "Pending pods",
    enter(route) {
      text.value = route.given.get("text") ?? "";
      isShown = true;
      if (latest?.report) show();
      refresh();
    },
    leave() {
      isShown = false;
      inFlight?.abort();
      clearTimeout(timer);
    },
  };
}

function nothingPending({ cluster }) {
  return el("div", { id: "pending-none" },
    el("p", {}, `All ${count(cluster.pods, "pod")} of ${count(cluster.nodes, "node")} have a node or are done.`),
    el("p", {}, "What you can do here: see ", el("a", { href: "#/nodes" }, "what is free on the nodes"), ", ask ",
      el("a", { href: "#/what-if" }, "what would happen if"), " a Deployment came, a node were drained or three were added, or read ",
      el("a", { href: toList() }, "what kube-scheduler was answered"), "."));
}

function groupElement(cause, pods, open) {
  const details = el("details", { class: "group", "data-cause": cause, ontoggle: toggled },
    el("summary", {},
      el("span", { class: "group-count" }, pods.length.toLocaleString("en")),
      el("span", { class: "muted of-all" }, pods.length === 1 ? "pod" : "pods"),
      el("span", { class: "group-text" }, el("strong", {}, name(cause)),
        el("span", { class: "group-why" }, joined(pods.map((one) => name(one.pod)), EXAMPLES), oldest(pods)))));

  function toggled() {
    if (!details.open) return void open.delete(cause);
    open.add(cause);
    if (details.childElementCount > 1) return;
    const body = el("tbody");
    const more = slices(body, pods, podRow, "pods", PODS);
    add(details, scrolling(`Pods: ${cause}`, foldingTable(HEADINGS, body, { class: "pending" })), more.line);
  }
  details.open = open.has(cause);
  return details;
}

const oldest = (pods) => {
  const since = pods.map((one) => one.since).filter(Boolean).sort()[0];
  return since ? ["; pending since ", relative(since)] : null;
};

const HEADINGS = ["Pod", "Pending since", "Would preemption help?", "What is in the way", "Priority"];

const podRow = (pod) => foldingRow(HEADINGS, [
  el("a", { href: toPod(pod.pod) }, name(pod.pod)),
  pod.since ? relative(pod.since) : el("span", { class: "muted" }, "not known"),
  [preemptionHelp(pod.preemption), pod.victims.length ? [": evicts ", joined(pod.victims.map((one) => name(one)), EXAMPLES), pod.node ? [" from ", name(pod.node)] : null] : null],
  [pod.blockedBy ? name(pod.blockedBy) : null, pod.hint ? el("span", { class: "group-why" }, name(pod.hint)) : null],
  pod.priority.toLocaleString("en"),
]);
