// The form of a what-if simulation (POST /simulate): which pods would be scheduled, which would be evicted, and what
// would follow from other nodes. It changes nothing in the cluster. Manifests are sent as they are typed: the service
// reads YAML and JSON as kubectl does.

import * as api from "./api.js";
import { alert, announce, byId, el, replace } from "./dom.js";
import { EXAMPLES } from "./examples.js";
import { simulationResult } from "./simulation-result.js";
import { toDecision } from "./route.js";
import { scenarioForm } from "./scenario-form.js";
import { known } from "./status.js";
import { count } from "./words.js";

const CONFIGURED = "configured"; // the service's name of the policies in effect
const LIMIT_SECONDS = 60; // of a simulation, as the service has it

/** Say how many pods were tried and how long it takes; with others in flight, it is not known which of them runs. */
function progressOf({ inFlight = 1, tried = 0, pods = 0 }, seconds) {
  const own = pods ? `${tried.toLocaleString("en")} of ${count(pods, "pod")} tried, ` : tried ? `${count(tried, "pod")} tried, ` : "";
  if (inFlight <= 1) return `simulating … ${own}${seconds} s of at most ${LIMIT_SECONDS} s`; // the limit begins with its turn
  return `simulating … ${inFlight} simulations are under way, one after another; ${own ? `of the first ${own}` : ""}${seconds} s`;
}

export function createWhatIf() {
  const view = byId("view-what-if");
  let form = null;
  let running = null; // AbortController of the latest submission

  async function draw(route) {
    const id = route.given.get("decision");
    const text = el("textarea", { name: "pod", rows: 14, spellcheck: "false", autocomplete: "off", "aria-describedby": "pod-help" });
    const error = el("div", { id: "form-error", "aria-live": "assertive" });
    const result = el("div", { id: "result" });
    const preset = el("select", { name: "preset" }, el("option", { value: CONFIGURED }, "in effect"));
    const other = el("select", { name: "compare" }, el("option", { value: "" }, "nothing"), el("option", { value: CONFIGURED }, "in effect"));
    const pending = el("input", { type: "checkbox", name: "pending" });
    const scenario = scenarioForm();
    const button = el("button", { type: "submit", class: "main" }, "Simulate");
    const cancel = el("button", { type: "button", id: "cancel", hidden: true, onclick: () => running?.abort() }, "Cancel");
    const progress = el("span", { id: "progress", hidden: true });
    const note = el("p", { id: "pod-note", class: "muted" });
    const parts = { text, preset, other, pending, scenario, button, cancel, progress, error, result };
    form = el("form", { id: "what-if-form", novalidate: true, onsubmit: (event) => (event.preventDefault(), submit(parts)) },
      el("div", { class: "actions", role: "group", "aria-label": "Examples" }, el("span", { class: "muted" }, "Examples: "),
        EXAMPLES.map((one) => el("button", { type: "button", onclick: () => fillExample(one.fields, scenario) }, one.label))),
      el("label", { class: "block" }, "Pods or workloads, as YAML or JSON", text),
      el("p", { id: "pod-help", class: "muted" }, "What you would give to kubectl: Pods, Deployments, Jobs and so on, several documents or a List, with claims, budgets, classes and Services that the cluster lacks."),
      note, scenario.fields,
      el("div", { class: "filters" },
        el("label", {}, "Policies ", preset), el("label", {}, "Compare with ", other),
        el("label", { class: "check" }, pending, " include the pending pods of the cluster"), button, cancel, progress),
      error);
    replace(view, el("h1", { tabindex: "-1" }, "What if …"),
      el("p", { class: "muted" }, "Schedules these pods on a copy of the cluster, as kube-scheduler would, and says where they go, who is evicted for them and what stays pending. The cluster itself does not change."),
      form, result);
    known().then(({ presets = [] }) => presets.forEach((one) => [preset, other].forEach((select) => select.append(el("option", { value: one }, one)))));
    const drain = route.given.get("drain");
    if (drain) {
      form.elements.drain.value = drain;
      scenario.fields.open = true;
    }
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

  function fillExample(fields, scenario) {
    form.reset();
    for (const [key, value] of Object.entries(fields)) {
      const field = form.elements[key];
      if (field.type === "checkbox") field.checked = value;
      else field.value = value;
      scenario.fields.open ||= scenario.fields.contains(field);
    }
    form.querySelector("button.main").focus();
  }

  /** Return the keys of the body beside the manifests; throw an Error, with the field at fault as `field`. */
  function settingsOf({ text, preset, other, pending, scenario }) {
    const settings = scenario.body();
    if (pending.checked) settings.pending = true;
    if (other.value) settings.compare = [preset.value, other.value];
    else settings.preset = preset.value;
    if (text.value.trim() || pending.checked || scenario.changesNodes()) return settings;
    throw new Error("Paste a pod or a workload, choose an example, include the pending pods, or change the nodes.");
  }

  async function submit(parts) {
    const { text, scenario, button, cancel, progress, error, result } = parts;
    replace(error);
    form.querySelectorAll("[aria-invalid]").forEach((field) => field.removeAttribute("aria-invalid"));
    let settings;
    try {
      settings = settingsOf(parts);
    } catch (wrong) {
      const field = wrong.field ?? text;
      scenario.fields.open ||= scenario.fields.contains(field);
      field.setAttribute("aria-invalid", "true");
      replace(error, alert(wrong.message));
      field.focus();
      return;
    }
    const own = (running = new AbortController());
    const begun = performance.now();
    let latest = {};
    const tell = () => (progress.textContent = progressOf(latest, Math.round((performance.now() - begun) / 1000)));
    const ticking = setInterval(() => {
      tell();
      api.simulations(own.signal).then((answer) => ((latest = answer), tell()), () => (latest = {}));
    }, 1000);
    tell();
    button.disabled = true;
    cancel.hidden = progress.hidden = false;
    result.setAttribute("aria-busy", "true");
    replace(result);
    try {
      const answer = await api.simulate(text.value, settings, own.signal);
      replace(result, simulationResult(answer), el("p", { class: "muted" }, `Simulated in ${((performance.now() - begun) / 1000).toFixed(1)} s.`));
      announce("The simulation has finished.");
      result.querySelector("h2")?.focus({ preventScroll: false });
    } catch (failure) {
      replace(result, failure.name === "AbortError" ? el("p", {}, "Cancelled: nothing was changed.") : alert(failure.message));
    } finally {
      clearInterval(ticking);
      button.disabled = false;
      cancel.hidden = progress.hidden = true;
      result.removeAttribute("aria-busy");
    }
  }

  let from = null;
  return {
    title: () => "What if",
    enter(route) {
      const wanted = route.given.toString();
      if (form && from === wanted) return; // keep the typed text
      from = wanted;
      running?.abort();
      draw(route);
    },
    leave() {},
  };
}
