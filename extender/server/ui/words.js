// Words of the service for its codes, and the formats of numbers, times and amounts.
// Rule: what a code means is said in extender/report/wording.py alone.

const wording = await (await fetch(new URL("wording.json", import.meta.url))).json();

export const criterion = (key) => wording.criteria[key] ?? { label: key, better: "lowest" };

/** Outcome of a node -> { label, meaning, afterwards }; the label begins a line. */
export const outcomeOf = (outcome) => {
  const words = wording.nodeOutcomes[outcome] ?? { label: outcome, meaning: "", afterwards: "after" };
  return { ...words, label: words.label[0].toUpperCase() + words.label.slice(1) };
};

/** Outcome of a decision -> its tag; an answered decision has none. */
export const decisionTag = (outcome) => wording.decisionOutcomes[outcome]?.label;

/** [outcome of a decision, its words] of all outcomes, for a choice. */
export const decisionOutcomes = [["answered", "answered"], ...Object.entries(wording.decisionOutcomes).map(([outcome, { label }]) => [outcome, label])];

/** Role of a pod -> { label, meaning }. */
export const ROLES = wording.roles;

export const preemptionHelp = (code) => wording.preemptionHelp[code]?.meaning ?? code;
export const cycleOutcome = (outcome) => wording.cycleOutcomes[outcome] ?? outcome;
export const evictionCause = (cause) => wording.evictionCauses[cause] ?? cause;
export const claimAllocation = (allocation) => wording.claimAllocations[allocation] ?? allocation;

/** Where the cluster of an answer comes from, such as `context prod` with the address of its API server. */
export function describeSource({ kind, context = "", server = "", files = [] }) {
  const values = { context, server, files: files.map((one) => (one.modified ? `${one.path}, written ${one.modified}` : one.path)).join(", ") };
  return wording.sources[kind === "live" && !context ? "inCluster" : kind].replace(/\{(\w+)\}/g, (_, key) => values[key]);
}

/** The version that judged and why, such as `kube-scheduler 1.36.2 (image tag …)`. */
export const judgedBy = ({ release, versionSource }) => `kube-scheduler ${release} (${versionSource})`;

/** What admission made of the manifests, one sentence each. */
export const admissionSentences = (found) => [
  wording.admissionModes[found.mode].replace("{version}", found.version),
  ...Object.entries(wording.admissionFindings)
    .filter(([key]) => found[key]?.length)
    .map(([key, words]) => words + joined(found[key], 10).flat(3).join("")),
];

export const count = (number, noun, plural = `${noun}s`) =>
  `${number.toLocaleString("en")} ${number === 1 ? noun : plural}`;

/** Join the first `limit` parts, text or elements, and count the others: `a, b and 3 more`. */
export const joined = (parts, limit) => [
  parts.slice(0, limit).map((one, place) => [place ? ", " : null, one]),
  parts.length > limit ? ` and ${parts.length - limit} more` : null,
];

const MAX_FACTS = 2; // of a group of nodes

/** Join the commonest facts of nodes, each node with its sentences; the second only if it is about half of them or more.
 * With the number of nodes where not all have it, as `in_brackets` of extender/report/facts/wording.py does. */
export function commonFacts(nodes) {
  const counts = [...Map.groupBy(nodes.flatMap((sentences) => [...new Set(sentences)]), (one) => one)].map(([sentence, several]) => [sentence, several.length]);
  const shown = counts.sort((one, other) => other[1] - one[1]).slice(0, MAX_FACTS).filter(([, number], place) => !place || 2 * number >= nodes.length);
  return shown.map(([sentence, number]) => (number < nodes.length ? `${sentence} on ${number}` : sentence)).join("; ");
}

export const milliseconds = (value) => `${value < 10 ? value.toFixed(1) : Math.round(value).toLocaleString("en")} ms`;

const UNITS = [[40, "Ti"], [30, "Gi"], [20, "Mi"], [10, "Ki"], [0, ""]];
const isBytes = (resource) => /^(memory|ephemeral-storage|storage|hugepages-.*)$/.test(resource);

/** Format an amount as manifests write it: 250m, 3, 4Gi; bytes have at most one decimal. */
export function amount(resource, value) {
  if (!isBytes(resource)) return together(resource, [value])[0];
  const [power, unit] = UNITS.find(([one]) => Math.abs(value) >= 2 ** one) ?? [0, ""];
  return `${Number((value / 2 ** power).toFixed(1))}${unit}`;
}

/** Format amounts of one resource in one unit, as `format_together` of extender/utilities/text.py does. */
export function together(resource, values) {
  if (resource === "cpu") return values.some((one) => one % 1000) ? values.map((one) => (one ? `${one}m` : "0")) : values.map((one) => `${one / 1000}`);
  if (!isBytes(resource)) return values.map((one) => one.toLocaleString("en"));
  const smallest = Math.min(...values.filter(Boolean).map(Math.abs));
  const shown = UNITS.map(([power, unit]) => [power, values.map((one) => `${Number((one / 2 ** power).toFixed(2))}${one ? unit : ""}`)]);
  return (shown.find(([power, texts]) => smallest * 10 >= 2 ** power && new Set(texts).size === new Set(values).size) ?? shown.at(-1))[1];
}

export const amounts = (requests = {}) =>
  Object.entries(requests).map(([resource, value]) => `${amount(resource, value)} ${resource}`).join(", ");

/** Return the resource names: cpu and memory first, pods last, the others between in alphabetical order. */
export const resourcesOf = (...several) => {
  const found = [...new Set(several.flatMap((one) => Object.keys(one ?? {})))].sort();
  const others = found.filter((one) => !["cpu", "memory", "pods"].includes(one));
  return ["cpu", "memory", ...others, "pods"].filter((one) => found.includes(one));
};
