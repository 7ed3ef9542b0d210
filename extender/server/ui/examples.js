// Examples for the form of a what-if simulation, as a person would write them for kubectl.

const CONTAINER = (cpu, memory) => `      containers:
        - name: main
          image: example.com/main:1
          resources:
            requests: {cpu: ${cpu}, memory: ${memory}}`;

const POD = `apiVersion: v1
kind: Pod
metadata:
  name: example
  namespace: default
spec:
  containers:
    - name: main
      image: example.com/main:1
      resources:
        requests: {cpu: "1", memory: 2Gi}
`;

const deployment = (replicas) => `apiVersion: apps/v1
kind: Deployment
metadata:
  name: example
  namespace: default
spec:
  replicas: ${replicas}
  selector:
    matchLabels: {app: example}
  template:
    metadata:
      labels: {app: example}
    spec:
${CONTAINER("500m", "1Gi")}
`;

const NODE = `apiVersion: v1
kind: Node
metadata:
  name: added
status:
  allocatable: {cpu: "8", memory: 32Gi, pods: "110"}
`;

/** `fields`: name of an input of the form -> its value; all others get their defaults. */
export const EXAMPLES = [
  { label: "Does this pod fit?", fields: { pod: POD } },
  { label: "50 replicas", fields: { pod: deployment(50) } },
  { label: "All 10 or none", fields: { pod: deployment(10), gang: true } },
  { label: "How many more fit?", fields: { pod: POD, untilFull: true } },
  { label: "The pending pods with 3 more nodes", fields: { pending: true, addNodes: NODE, count: 3 } },
];
