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

export const status = () => call("status");
export const decisions = (wanted, signal) => call(`decisions${query(wanted)}`, { signal });
export const decisionPath = (id) => new URL(`decisions/${encodeURIComponent(id)}`, BASE).href;

/** Fetch a decision without the pods of its nodes. */
export const decision = (id) => call(`decisions/${encodeURIComponent(id)}?pods=none`);

/** Fetch the pod that was to be scheduled, with the fields that decisions read. */
export const podOf = (id) => call(`decisions/${encodeURIComponent(id)}/pod`);

/** Fetch one node of a decision, with its pods. */
export async function node(id, name) {
  const answer = await call(`decisions/${encodeURIComponent(id)}${query({ node: name })}`);
  const found = answer.nodes?.find((candidate) => candidate.name === name);
  if (!found) throw new Failure(`The decision did not consider node ${name}.`, 404);
  return found;
}

export const simulate = (body) =>
  call("simulate", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
