// How things are called and written.

/** Criterion of the ranking -> heading, and which is better. */
const CRITERIA = {
  PDBViolations: ["Broken budgets", "fewest"],
  HighestPriority: ["Highest priority", "lowest"],
  PrioritySum: ["Sum of priorities", "lowest; of so many pods"],
  VictimCount: ["Victims", "fewest"],
  LatestStartTime: ["Start", "latest, of the most important victim"],
  PodDeletionCost: ["Pod deletion cost", "lowest"],
  EvictionCost: ["Eviction cost", "lowest"],
  QoSClass: ["Quality of service", "lowest class"],
  GracePeriod: ["Grace period", "shortest"],
  Workloads: ["Workloads", "fewest"],
  PodGroups: ["Broken pod groups", "fewest"],
  UnusedCapacity: ["Unused capacity", "least"],
  named: ["kube-scheduler’s choice", "its victims are those that kube-scheduler had chosen"],
  name: ["Name", "first"],
};
export const criterion = (key) => ({ label: CRITERIA[key]?.[0] ?? key, better: CRITERIA[key]?.[1] ?? "lowest" });

/** Outcome of a node -> heading, and what it means. */
export const OUTCOMES = {
  accepted: ["Takes the pod", ""],
  failed: ["Does not take it; evicting pods would help", ""],
  unresolvable: ["Does not take it; evicting pods would not help", ""],
  scored: ["Scored", ""],
  unscored: ["The pod does not fit as it is", ""],
  chosen: ["Chosen", "in the answer"],
  beaten: ["Beaten", "another candidate is better"],
  ruledOut: ["Ruled out", "a policy forbids the victims"],
  noRoom: ["No room", "the pod does not fit even with all evictable pods gone"],
  noVictims: ["No victims", "nobody there may be evicted"],
  fits: ["Fits", "without evicting anybody"],
  leftOut: ["Left out", "not in the cluster picture, or no eviction helps"],
  rejected: ["Rejected by the guard", "the last check of every answer"],
  vetoed: ["Not tried", "the pod may evict nobody now"],
};
export const outcomeLabel = (outcome) => OUTCOMES[outcome]?.[0] ?? outcome;

/** Outcome of a decision -> its tag; answered ones have none. */
export const DECISION_OUTCOMES = {
  nobody: "evicts nobody",
  vetoed: "vetoed",
  observed: "observed only",
  handsOff: "kill switch",
  failed: "failed",
};

/** Role of a running pod -> name, and what it means. */
export const ROLES = {
  kept: ["kept", "not less important than the pod"],
  protected: ["protected", "a policy forbids to evict it"],
  reprieved: ["reprieved", "could be evicted, but there is room for it"],
  evictable: ["evictable", "could be evicted, which would not be enough"],
  victim: ["victim", "to be evicted"],
  nominated: ["nominated", "waits for room here that the pod must leave to it"],
  preemptor: ["the pod", "that is to be scheduled"],
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

/** An amount of a resource: cpu in cores, memory in binary units, else a number. */
export function amount(resource, value) {
  if (resource === "cpu") return (value / 1000).toLocaleString("en", { maximumFractionDigits: 3 });
  if (/^(memory|ephemeral-storage|hugepages-.*)$/.test(resource)) return bytes(value);
  return value.toLocaleString("en");
}

export const amounts = (requests = {}) =>
  Object.entries(requests).map(([resource, value]) => `${amount(resource, value)} ${resource}`).join(", ");

/** cpu and memory first, pods last, the others between by name. */
export const resourcesOf = (...several) => {
  const found = [...new Set(several.flatMap((one) => Object.keys(one ?? {})))].sort();
  const others = found.filter((one) => !["cpu", "memory", "pods"].includes(one));
  return ["cpu", "memory", ...others, "pods"].filter((one) => found.includes(one));
};
