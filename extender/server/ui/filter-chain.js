// The filter plugins that ran for one node (RunFilterPlugins stops at the first one that rejects the pod).
// Rule: whether evictions help is said by the outcome of the node alone.

import { el } from "./dom.js";
import { count } from "./words.js";

/** The filter plugins in their order: those that the pod passed, the one that rejected it, and those that never ran. */
export function filterChain(decision, node) {
  const { filters = [] } = decision;
  const status = node.filter;
  if (!filters.length || !status || (status.code !== "Success" && !filters.includes(status.plugin))) return null;
  const at = status.code === "Success" ? filters.length : filters.indexOf(status.plugin);
  const passed = filters.slice(0, at);
  const notRun = filters.slice(at + 1);
  return el("p", { class: "chain" },
    passed.length ? [el("span", { class: "passed" }, `✓ ${count(passed.length, "filter")} pass`), ` (${passed.join(", ")})`] : null,
    at < filters.length ? [passed.length ? " · " : null, el("strong", { class: "bad" }, `✗ ${filters[at]}`), `: ${(status.reasons ?? []).join(", ")}`] : null,
    notRun.length ? el("span", { class: "muted" }, ` · not run: ${notRun.join(", ")}`) : null);
}
