// The scores of /prioritize: per node the answered score, the total and the weighted score of each plugin.

import { breakable, el, name, scrolling } from "./dom.js";
import { slices } from "./slices.js";

export function scores(about, nodes) {
  const { highest } = about.decision;
  const plugins = [...new Set(nodes.flatMap((node) => Object.keys(node.plugins ?? {})))];
  const sorted = [...nodes].sort((one, other) => (other.score ?? 0) - (one.score ?? 0) || (other.total ?? 0) - (one.total ?? 0));
  const rows = new Map();
  const body = el("tbody");
  const rowOf = (node) => {
    const row = el("tr", { class: node.score === sorted[0].score ? "chosen" : null },
      el("th", { scope: "row" }, name(node.name)),
      el("td", { class: "number" }, node.score ?? ""),
      node.outcome === "scored"
        ? [el("td", { class: "number" }, (node.total ?? 0).toLocaleString("en")), plugins.map((plugin) => el("td", { class: "number" }, pluginScore(node.plugins?.[plugin])))]
        : el("td", { colspan: plugins.length + 1, class: "muted" }, node.why));
    rows.set(node.name, row);
    return row;
  };
  const more = slices(body, sorted, rowOf, "nodes", 50);
  const table = el("table", { class: "scores" },
    el("caption", { class: "visually-hidden" }, "Scores, highest first"),
    el("colgroup", {}, el("col", { class: "w-node" }), el("col", { class: "w-key" }), el("col", { class: "w-key" }), plugins.map(() => el("col", { class: "w-key" }))),
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Node"), el("th", { scope: "col", class: "number" }, "Score", el("span", { class: "better" }, "0 to 10, as answered")),
      el("th", { scope: "col", class: "number" }, "Total", el("span", { class: "better" }, highest ? `of at most ${highest.toLocaleString("en")}` : "")),
      plugins.map((plugin) => el("th", { scope: "col", class: "number" }, breakable(plugin), el("span", { class: "better" }, "weighted"))))),
    body);
  return {
    element: el("section", { id: "scores" }, el("h2", {}, `Scores (${nodes.length.toLocaleString("en")})`),
      nodes.length ? [scrolling("Scores", table), more.line] : el("p", {}, "kube-scheduler sent no nodes.")),
    reveal(wanted) {
      const place = sorted.findIndex((node) => node.name === wanted);
      if (place === -1) return null;
      more.showTo(place);
      rows.get(wanted).classList.add("found");
      return rows.get(wanted);
    },
  };
}

const pluginScore = (value) => (value === undefined ? "–" : value.toLocaleString("en"));
