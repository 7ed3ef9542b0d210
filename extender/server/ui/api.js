// Client of the admin listener. Rule: every error is a `Failure` with a message for the operator.

const BASE = new URL("../", import.meta.url);

export class Failure extends Error {
  constructor(message, status = 0) {
    super(message);
    this.status = status;
  }
}

async function call(path, options = {}) {
  let response;
  try {
    response = await fetch(new URL(path, BASE), { cache: "no-store", credentials: "same-origin", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure("The service cannot be reached.");
  }
  const text = await response.text();
  let answer;
  try {
    answer = JSON.parse(text);
  } catch {
    throw new Failure(`The service answered ${response.status} with something that is not JSON.`, response.status);
  }
  if (!response.ok) throw new Failure(answer?.Error ?? `The service answered ${response.status}.`, response.status);
  return answer;
}

const query = (values) => {
  const given = new URLSearchParams(Object.entries(values).filter(([, value]) => value !== "" && value != null));
  return given.size ? `?${given}` : "";
};

const part = encodeURIComponent;

/** Fetch how far the simulation has come that runs now, and how many run or wait. */
export const simulations = (signal) => call("simulate", { signal });
export const status = () => call("status");
/** Fetch the last report of the pending pods; without the report if it is still the one of the time `known`. */
export const pending = (known, signal) => call(`pending${query({ known })}`, { signal });
export const nodes = (wanted, signal) => call(`nodes${query(wanted)}`, { signal });
export const clusterNode = (name) => call(`nodes/${part(name)}`);

/** Fetch the diagnosis of a pod on all nodes; `node`: with this node in full. `pod`: `namespace/name`. */
export const why = (pod, node, signal) => call(`why/${pod.split("/").map(part).join("/")}${query({ node })}`, { signal });

export const decisions = (wanted, signal) => call(`decisions${query(wanted)}`, { signal });
export const decisionPath = (id) => new URL(`decisions/${part(id)}`, BASE).href;

/** Fetch a decision without the pods of its nodes. */
export const decision = (id) => call(`decisions/${part(id)}?pods=none`);

/** Fetch the pod that was to be scheduled, with the fields that decisions read. */
export const podOf = (id) => call(`decisions/${part(id)}/pod`);

/** Fetch one node of a decision, with its pods. A node that is not in it is a Failure that says why. */
export async function node(id, name) {
  const answer = await call(`decisions/${part(id)}${query({ node: name })}`);
  return answer.nodes.find((candidate) => candidate.name === name);
}

/** Simulate; `manifests`: YAML or JSON as a person wrote it, which the service reads, `settings`: keys of the body. */
export const simulate = (manifests, settings, signal) =>
  call("simulate", {
    method: "POST",
    headers: { "Content-Type": "application/yaml" },
    body: [manifests, JSON.stringify(settings)].filter((one) => one.trim()).join("\n---\n"),
    signal,
  });
