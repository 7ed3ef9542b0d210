// The part of the what-if form with the scenario: nodes that are drained, removed, cordoned or added first, whether
// evicted pods come back, and how many pods are scheduled.

import * as api from "./api.js";
import { el } from "./dom.js";
import { picker } from "./picker.js";

const MATCHES = 8;

const nodeNames = async (text) => (await api.nodes({ text, limit: MATCHES })).nodes.map((one) => one.name);

/**
 * Return the `fields`, the keys of the `body()` that they set, and `changesNodes()`.
 * The Error of `body()` has the field that is wrong as its `field`.
 */
export function scenarioForm() {
  const nodes = (key, label) => picker({ key, label, placeholder: "node names", suggest: nodeNames, many: true });
  const check = (key, checked = false) => el("input", { type: "checkbox", name: key, checked });
  const changes = [nodes("drain", "Drain"), nodes("removeNodes", "Remove"), nodes("cordon", "Cordon")];
  const template = el("textarea", { name: "addNodes", rows: 5, spellcheck: "false", autocomplete: "off" });
  const number = el("input", { type: "number", name: "count", min: 1, value: 1 });
  const switches = [check("untilFull"), check("gang"), check("replaceEvicted", true)];

  /** The names of the inputs are the keys of the body; what has its default is left out. */
  function body() {
    const given = {};
    for (const { field, names } of changes) if (names().length) given[field.name] = names();
    if (template.value.trim()) {
      const count = number.valueAsNumber;
      if (!(count >= 1 && Number.isInteger(count))) throw Object.assign(new Error("The number of nodes is a whole number, at least 1."), { field: number });
      given[template.name] = [{ node: template.value, count }]; // as text, which the service reads
    }
    for (const box of switches) if (box.checked !== box.defaultChecked) given[box.name] = box.checked;
    return given;
  }

  const checkLabel = (text, input) => el("label", { class: "check" }, input, ` ${text}`);
  const fields = el("details", { id: "scenario" }, el("summary", {}, "Change nodes first, schedule as many as fit, or all or nothing"),
    el("div", { class: "filters" }, changes.map((one) => one.element)),
    el("label", { class: "block" }, "Nodes to add, as YAML or JSON", template),
    el("div", { class: "filters" }, el("label", {}, "Number of each ", number),
      ["as many of this pod as fit", "all pods or none", "evicted pods come back"].map((text, place) => checkLabel(text, switches[place]))));
  const inputs = [template, ...changes.map((one) => one.field)];
  return { fields, body, changesNodes: () => inputs.some((one) => one.value.trim()) };
}
