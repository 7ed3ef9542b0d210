// Labels of criteria, outcomes and roles, and the formats of numbers, times and amounts.

/** Criterion of the ranking -> heading, and which value is better. */
const CRITERIA = {
  PDBViolations: ["PDB violations", "fewest"],
  HighestPriority: ["Highest victim priority", "lowest"],
  PrioritySum: ["Sum of priorities", "lowest after 2^31 is added for each victim; number of victims in brackets"],
  VictimCount: ["Victims", "fewest"],
  LatestStartTime: ["Start time", "latest, of the most important victim"],
  PodDeletionCost: ["Pod deletion cost", "lowest"],
  EvictionCost: ["Eviction cost", "lowest"],
  QoSClass: ["QoS class", "lowest"],
  GracePeriod: ["Grace period", "shortest"],
  Workloads: ["Workloads", "fewest"],
  PodGroups: ["Broken pod groups", "fewest"],
  UnusedCapacity: ["Unused capacity", "least"],
  Stranded: ["Stranded victims", "fewest"],
  named: ["kube-scheduler’s choice", "its victims are the ones that kube-scheduler selected"],
  name: ["Name", "first"],
};
export const criterion = (key) => ({ label: CRITERIA[key]?.[0] ?? key, better: CRITERIA[key]?.[1] ?? "lowest" });

/** Outcome of a node -> heading, and its meaning. */
export const OUTCOMES = {
  accepted: ["Feasible", ""],
  failed: ["Unschedulable", "evicting pods may help"],
  unresolvable: ["Unschedulable and unresolvable", "evicting pods does not help"],
  scored: ["Scored", ""],
  unscored: ["Not scored", "the pod does not fit without evictions"],
  chosen: ["Chosen", "in the answer"],
  outranked: ["Outranked", "another candidate ranks higher"],
  rejectedByPolicy: ["Rejected by policy", "a policy forbids the victims"],
  insufficientAfterPreemption: ["Insufficient after preemption", "the pod does not fit even with all potential victims evicted"],
  noVictims: ["No victims", "the node has no potential victims"],
  fits: ["Fits", "without evictions"],
  notEvaluated: ["Not evaluated", "not in the cluster cache, or preemption does not help"],
  rejected: ["Rejected by the guard", "failed the final check of the answer"],
  vetoed: ["Vetoed", "the pod may not preempt now"],
};
export const outcomeLabel = (outcome) => OUTCOMES[outcome]?.[0] ?? outcome;

/** Outcome of a decision -> its tag; an answered decision has none. */
export const DECISION_OUTCOMES = {
  noVictims: "no victims",
  vetoed: "vetoed",
  observed: "observed only",
  passthrough: "passed through",
  failed: "failed",
};

/** Role of a pod -> label, and its meaning. */
export const ROLES = {
  kept: ["kept", "at least as important as the preemptor"],
  protected: ["protected", "a policy forbids its eviction"],
  reprieved: ["reprieved", "could be evicted, but fits beside the preemptor"],
  evictable: ["evictable", "could be evicted, but that is not enough"],
  victim: ["victim", "to be evicted"],
  nominated: ["nominated", "a pod nominated to this node, whose requests count as used"],
  preemptor: ["preemptor", "the pod to be scheduled"],
  free: ["free", ""],
};

export const count = (number, noun, plural = `${noun}s`) =>
  `${number.toLocaleString("en")} ${number === 1 ? noun : plural}`;

/** `2026-11-22T00:06:16.566Z` -> `11-22 00:06:16`. */
export const shortTime = (time) => time.slice(5, 19).replace("T", " ");
export const longTime = (time) => `${time.replace("T", " ").replace(/Z$/, "")} UTC`;
export const milliseconds = (value) => `${value < 10 ? value.toFixed(1) : Math.round(value).toLocaleString("en")} ms`;

const digits = (value) => value.toLocaleString("en", { maximumSignificantDigits: 3 });

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

function bytes(value) {
  const place = value ? Math.min(UNITS.length - 1, Math.floor(Math.log2(Math.abs(value)) / 10)) : 0;
  return `${digits(value / 1024 ** place)} ${UNITS[place]}`;
}

/** Format an amount of a resource: cpu in cores, memory in binary units, other resources as a number. */
export function amount(resource, value) {
  if (resource === "cpu") return (value / 1000).toLocaleString("en", { maximumFractionDigits: 3 });
  if (/^(memory|ephemeral-storage|hugepages-.*)$/.test(resource)) return bytes(value);
  return value.toLocaleString("en");
}

export const amounts = (requests = {}) =>
  Object.entries(requests).map(([resource, value]) => `${amount(resource, value)} ${resource}`).join(", ");

/** Return the resource names: cpu and memory first, pods last, the others between in alphabetical order. */
export const resourcesOf = (...several) => {
  const found = [...new Set(several.flatMap((one) => Object.keys(one ?? {})))].sort();
  const others = found.filter((one) => !["cpu", "memory", "pods"].includes(one));
  return ["cpu", "memory", ...others, "pods"].filter((one) => found.includes(one));
};
