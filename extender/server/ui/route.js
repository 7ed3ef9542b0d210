// Parse and build the addresses of the views: #/decisions?verb=preempt, #/decisions/preempt-17?node=worker-b1&node=worker-a1, #/what-if?decision=preempt-17.

export function parse(hash) {
  const text = hash.replace(/^#/, "") || "/decisions";
  const [path, search = ""] = text.split(/\?(.*)/s);
  const parts = path.split("/").filter(Boolean).map(decoded);
  const given = new URLSearchParams(search);
  if (parts[0] === "what-if") return { view: "what-if", given };
  if (parts[0] === "decisions" && parts[1] !== undefined) return { view: "decision", id: parts[1], given };
  return { view: "decisions", given };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // a malformed escape is shown as it is
  }
}

const withQuery = (path, pairs) => {
  const given = new URLSearchParams(pairs.filter(([, value]) => value));
  return given.size ? `${path}?${given}` : path;
};

export const toList = (filters = {}) => withQuery("#/decisions", Object.entries(filters));
export const toDecision = (id, nodes = []) =>
  withQuery(`#/decisions/${encodeURIComponent(id)}`, nodes.map((one) => ["node", one]));
export const toWhatIf = (id) => withQuery("#/what-if", [["decision", id]]);
