// The part of the what-if form with the scenario: nodes that are drained, removed, cordoned or added first, whether
// evicted pods come back, and how many pods are scheduled.

import { el } from "./dom.js";

const WORKLOADS = new Set(["Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Job", "CronJob"]);

/** Return the key of the body of POST /simulate that takes an object of this kind. */
export const bodyKey = ({ kind = "Pod" }) => (kind === "Pod" ? "pods" : WORKLOADS.has(kind) ? "workloads" : "claims");

/**
 * Return the `fields`, the keys of the `body()` that they set, and `changesNodes()`. `parse`: text -> nodes, or an Error.
 * The Error of `body()` has the field that is wrong as its `field`.
 */
export function scenarioForm(parse) {
  const nodeNames = (key) => el("input", { name: key, size: 24, spellcheck: "false", autocomplete: "off", placeholder: "node names" });
  const check = (key, checked = false) => el("input", { type: "checkbox", name: key, checked });
  const changes = [nodeNames("drain"), nodeNames("removeNodes"), nodeNames("cordon")];
  const template = el("textarea", { name: "addNodes", rows: 5, spellcheck: "false", autocomplete: "off" });
  const number = el("input", { type: "number", name: "count", min: 1, value: 1 });
  const switches = [check("untilFull"), check("gang"), check("replaceEvicted", true)];

  function addedNodes() {
    const count = number.valueAsNumber;
    if (!(count >= 1 && Number.isInteger(count))) throw Object.assign(new Error("The number of nodes is a whole number, at least 1."), { field: number });
    try {
      return parse(template.value).map((node) => ({ node, count }));
    } catch (error) {
      throw Object.assign(error, { field: template });
    }
  }

  /** The names of the inputs are the keys of the body; what has its default is left out. */
  function body() {
    const given = {};
    for (const input of changes) {
      const names = input.value.split(/[\s,]+/).filter(Boolean);
      if (names.length) given[input.name] = names;
    }
    if (template.value.trim()) given[template.name] = addedNodes();
    for (const box of switches) if (box.checked !== box.defaultChecked) given[box.name] = box.checked;
    return given;
  }

  const label = (text, input) => el("label", {}, `${text} `, input);
  const checkLabel = (text, input) => el("label", { class: "check" }, input, ` ${text}`);
  const fields = el("details", { id: "scenario" }, el("summary", {}, "Change nodes, schedule until full or all or nothing"),
    el("div", { class: "filters" }, ["Drain", "Remove", "Cordon"].map((text, place) => label(text, changes[place]))),
    el("label", { class: "block" }, "Nodes to add, as JSON", template),
    el("div", { class: "filters" }, label("Number of each", number), 
      ["as many of this pod as fit", "all pods or none", "evicted pods come back"].map((text, place) => checkLabel(text, switches[place]))));
  const changesNodes = () => [template, ...changes].some((field) => field.value.trim());
  return { fields, body, changesNodes };
}
