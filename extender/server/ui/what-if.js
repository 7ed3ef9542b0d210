// The form of a what-if simulation (POST /simulate): which pods would be scheduled, which would be evicted, and what
// would follow from other nodes. It changes nothing in the cluster.

import * as api from "./api.js";
import { alert, announce, byId, el, replace } from "./dom.js";
import { simulationResult } from "./simulation-result.js";
import { toDecision } from "./route.js";
import { bodyKey, scenarioForm } from "./scenario-form.js";
import { known } from "./status.js";

const CONFIGURED = "configured"; // the service's name of the policies in effect
const LOOKS_LIKE_YAML = /^\s*(---|#|apiVersion:|kind:|metadata:|spec:)/;
const HOW_TO_GET_JSON = "kubectl get pod NAME -o json prints a pod as JSON; kubectl create -f FILE --dry-run=client -o json does so with a file.";

/** Parse pasted JSON into a list of objects; throw an Error with a message for the operator. `noun`: what they are. */
function objectsOf(text, noun) {
  let given;
  try {
    given = JSON.parse(text);
  } catch (error) {
    if (LOOKS_LIKE_YAML.test(text)) throw new Error(`This looks like YAML, which is not supported here: paste JSON. ${HOW_TO_GET_JSON}`);
    throw new Error(`This is not JSON: ${error.message}. ${HOW_TO_GET_JSON}`);
  }
  if (given?.kind === "List" || given?.kind === `${noun[0].toUpperCase()}${noun.slice(1)}List`) given = given.items ?? [];
  const objects = Array.isArray(given) ? given : [given];
  for (const one of objects) {
    if (one === null || typeof one !== "object" || Array.isArray(one)) throw new Error(`A ${noun} is an object with metadata and spec.`);
  }
  if (!objects.length) throw new Error(`The list contains no ${noun}s.`);
  return objects;
}

/** Return the keys of the body of POST /simulate that pasted pods, workloads and resource claims set. */
function podsOf(text) {
  const body = Object.groupBy(objectsOf(text, "pod"), bodyKey);
  if (!body.pods && !body.workloads) throw new Error("The list contains no pods.");
  return { ...body };
}

export function createWhatIf() {
  const view = byId("view-what-if");
  let form = null;
  let current = null; // the latest submission; the response of an older one is dropped

  async function draw(route) {
    const id = route.given.get("decision");
    const text = el("textarea", { name: "pod", rows: 14, spellcheck: "false", autocomplete: "off", "aria-describedby": "pod-help" });
    const error = el("div", { id: "form-error", "aria-live": "assertive" });
    const result = el("div", { id: "result" });
    const preset = el("select", { name: "preset" }, el("option", { value: CONFIGURED }, "in effect"));
    const other = el("select", { name: "compare" }, el("option", { value: "" }, "nothing"), el("option", { value: CONFIGURED }, "in effect"));
    const pending = el("input", { type: "checkbox", name: "pending" });
    const scenario = scenarioForm((pasted) => objectsOf(pasted, "node"));
    const button = el("button", { type: "submit", class: "main" }, "Simulate");
    const note = el("p", { id: "pod-note", class: "muted" });
    form = el("form", { id: "what-if-form", novalidate: true, onsubmit: (event) => (event.preventDefault(), submit({ text, preset, other, pending, scenario, button, error, result })) },
      el("label", { class: "block" }, "Pod, as JSON", text),
      el("p", { id: "pod-help", class: "muted" }, "One pod, an array or a List, also of workloads, with claims, budgets, classes and Services that the cluster lacks. ", HOW_TO_GET_JSON, " YAML is not supported here."),
      note, scenario.fields,
      el("div", { class: "filters" },
        el("label", {}, "Policies ", preset), el("label", {}, "Compare with ", other),
        el("label", { class: "check" }, pending, " include the pending pods of the cluster"), button),
      error);
    replace(view, el("h1", { tabindex: "-1" }, "What-if simulation"),
      el("p", {}, "Runs whole scheduling cycles on a copy of the cluster: filters, scores, preemption with the policies, and the cycles that follow. Nothing is evicted."),
      form, result);
    known().then(({ presets = [] }) => presets.forEach((one) => [preset, other].forEach((select) => select.append(el("option", { value: one }, one)))));
    if (!id) return;
    button.disabled = true; // what is asked about is still on its way
    await fill(id, text, note);
    button.disabled = false;
  }

  async function fill(id, text, note) {
    const own = form;
    try {
      const pod = await api.podOf(id);
      if (form !== own) return;
      text.value = JSON.stringify({ apiVersion: "v1", kind: "Pod", ...pod }, null, 2);
      replace(note, "From ", el("a", { href: toDecision(id) }, id), ": the fields that decisions read.");
    } catch (error) {
      if (form === own) replace(note, alert(`Cannot load the pod of ${id}: ${error.message}`));
    }
  }

  /** Return what is to be simulated; throw an Error, with the field at fault as `field` if it is not the pod's. */
  function bodyOf(text, pending, scenario) {
    const body = scenario.body();
    if (pending.checked) body.pending = true;
    if (text.value.trim()) return { ...body, ...podsOf(text.value) };
    if (!pending.checked && !scenario.changesNodes()) throw new Error("Paste a pod as JSON, include the pending pods, or change the nodes.");
    return body;
  }

  async function submit({ text, preset, other, pending, scenario, button, error, result }) {
    replace(error);
    form.querySelectorAll("[aria-invalid]").forEach((field) => field.removeAttribute("aria-invalid"));
    let body;
    try {
      body = bodyOf(text, pending, scenario);
    } catch (wrong) {
      const field = wrong.field ?? text;
      scenario.fields.open ||= scenario.fields.contains(field);
      field.setAttribute("aria-invalid", "true");
      replace(error, alert(wrong.message));
      field.focus();
      return;
    }
    if (other.value) body.compare = [preset.value, other.value];
    else body.preset = preset.value;
    const own = (current = {});
    button.disabled = true;
    result.setAttribute("aria-busy", "true");
    replace(result, el("p", { class: "muted loading" }, "simulating …"));
    try {
      const answer = await api.simulate(body);
      if (own !== current) return;
      replace(result, simulationResult(answer));
      announce("The simulation has finished.");
      result.querySelector("h2")?.focus({ preventScroll: false });
    } catch (failure) {
      if (own === current) replace(result, alert(failure.message));
    } finally {
      button.disabled = false;
      result.removeAttribute("aria-busy");
    }
  }

  let from = null;
  return {
    title: () => "What-if simulation",
    enter(route) {
      const id = route.given.get("decision") ?? "";
      if (form && from === id) return; // keep the typed text
      from = id;
      draw(route);
    },
    leave() {},
  };
}
