// The status in the header: is the service ready, and with which state of the cluster cache.

import * as api from "./api.js";
import { byId, el, fact, replace } from "./dom.js";
import { count, describeSource } from "./words.js";

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

/** Show what `/readyz?verbose` shows: its checks, and in the line the first one that needs attention. */
function show(line, status) {
  const { checks = [], cluster, source } = status;
  const failing = checks.filter((one) => one.startsWith("[-]"));
  const warnings = checks.filter((one) => one.startsWith("[!]"));
  const size = cluster ? `${count(cluster.nodes, "node")}, ${count(cluster.pods, "running pod")}, ${count(cluster.budgets, "budget")}` : "no cluster";
  line.className = status.ready ? "bad" : warnings.length ? "warn" : "";
  if (status.ready) replace(line, `✗ not ready: ${status.ready}`);
  else if (warnings.length) replace(line, `! ready, ${count(warnings.length, "warning")}: ${warnings[0].slice(4)}`);
  else replace(line, `✓ ready: ${describeSource(source)}: ${size}`);
  replace(byId("status-more"), el("dl", { class: "facts" },
    fact("Checks", lines([...failing, ...warnings, ...checks.filter((one) => one.startsWith("[+]"))])),
    fact("Version", status.version),
    fact("Cluster cache", status.cache),
    fact("Policies", status.policies?.length ? lines(status.policies) : "kube-scheduler’s own"),
    fact("Kept decisions", Object.entries(status.decisions ?? {}).map(([verb, kept]) => `${kept} ${verb}`).join(", ")),
    fact("Recording", status.recording?.enabled ? "on" : "off"),
  ));
}

const lines = (several) => el("ul", { class: "plain" }, several.map((one) => el("li", {}, one)));
