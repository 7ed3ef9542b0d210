// The status in the header: is the service ready, and with which state of the cluster cache.

import * as api from "./api.js";
import { add, byId, el, fact, replace } from "./dom.js";
import { count } from "./words.js";

const REFRESH_MILLISECONDS = 10_000;

let latest = null;
const waiting = [];

/** Resolve to the status once the first response has arrived. */
export const known = () => (latest ? Promise.resolve(latest) : new Promise((resolve) => waiting.push(resolve)));

export async function follow() {
  for (;;) {
    if (!document.hidden) await refresh();
    await new Promise((resolve) => setTimeout(resolve, REFRESH_MILLISECONDS));
  }
}

async function refresh() {
  const line = byId("status-line");
  try {
    latest = await api.status();
  } catch (error) {
    line.className = "bad";
    replace(line, `✗ ${error.message}`);
    return;
  }
  waiting.splice(0).forEach((resolve) => resolve(latest));
  show(line, latest);
}

function show(line, status) {
  const notes = status.notes ?? [];
  line.className = status.ready ? "bad" : "";
  const cluster = status.cluster;
  const summary = cluster
    ? `${count(cluster.nodes, "node")}, ${count(cluster.pods, "pod")}, ${count(cluster.budgets, "budget")}`
    : "no cluster";
  replace(line, status.ready ? "✗ not ready" : `✓ ready: ${summary}`);
  if (notes.length) add(line, ` · ${count(notes.length, "note")}`);
  replace(byId("status-more"), el("dl", { class: "facts" },
    fact("Version", status.version),
    fact("Not ready", status.ready),
    fact("Cluster cache", status.cache),
    fact("kube-scheduler", status.scheduler),
    fact("Not evaluated", status.notEvaluated?.length ? lines(status.notEvaluated) : null),
    fact("Policies", status.policies?.length ? lines(status.policies) : "kube-scheduler’s own"),
    fact("Notes", notes.length ? lines(notes) : null),
    fact("Kept decisions", Object.entries(status.decisions ?? {}).map(([verb, kept]) => `${kept} ${verb}`).join(", ")),
    fact("Recording", status.recording?.enabled ? "on" : "off"),
  ));
}

const lines = (several) => el("ul", { class: "plain" }, several.map((one) => el("li", {}, one)));
