// Parse and build the addresses of the views:
// #/pending, #/pods/shop/cart-9?node=worker-b1, #/nodes?text=gpu&pod=shop/cart-9, #/nodes/worker-b1,
// #/decisions?verb=preempt, #/decisions/preempt-17?node=worker-b1&node=worker-a1, #/what-if?decision=preempt-17.

export function parse(hash) {
  const text = hash.replace(/^#/, "") || "/pending";
  const [path, search = ""] = text.split(/\?(.*)/s);
  const [view, first, ...rest] = path.split("/").filter(Boolean).map(decoded);
  const given = new URLSearchParams(search);
  if (view === "what-if") return { view, given };
  const whole = [first, ...rest].join("/"); // names in files may have slashes
  if (view === "pods" && rest.length) return { view: "pod", pod: whole, given };
  if (view === "nodes") return first === undefined ? { view, given } : { view: "node", name: whole, given };
  if (view === "decisions") return first === undefined ? { view, given } : { view: "decision", id: first, given };
  return { view: "pending", given };
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

export const toPending = (filters = {}) => withQuery("#/pending", Object.entries(filters));
export const toPod = (pod, node) => withQuery(`#/pods/${pod.split("/").map(encodeURIComponent).join("/")}`, [["node", node]]);
export const toNodes = (filters = {}) => withQuery("#/nodes", Object.entries(filters));
export const toNode = (name) => `#/nodes/${encodeURIComponent(name)}`;
export const toList = (filters = {}) => withQuery("#/decisions", Object.entries(filters));
export const toDecision = (id, nodes = []) =>
  withQuery(`#/decisions/${encodeURIComponent(id)}`, nodes.map((one) => ["node", one]));
export const toWhatIf = (id) => withQuery("#/what-if", [["decision", id]]);
export const toDrain = (node) => withQuery("#/what-if", [["drain", node]]);
