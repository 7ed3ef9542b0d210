// Command upstream measures the time of preemption in kube-scheduler's own code on a given cluster.
//
// It reads a scenario, a JSON object {"cluster": List, "pod": Pod} (gzipped or not), makes the scheduler with its
// default profile over an empty fake clientset, puts the scenario's objects into its cache and listers, and runs
// PreFilter, Filter on every node, the dry run of preemption on every unschedulable node, and the choice among all
// candidates: once over every node, once for as many candidates as the default configuration wants.
//
// After a round to warm up it prints JSON lines: one when it is ready, one per round (milliseconds of wall clock and of
// CPU of the whole process, garbage collection included), and at the end the median, least and most of each.
// With -turns a round starts when a line comes in.
package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"flag"
	"io"
	"log"
	"os"
	"runtime"
	"slices"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	"k8s.io/kubernetes/pkg/scheduler/profile"
)

// The defaults of DefaultPreemptionArgs.
var sampling = config.DefaultPreemptionArgs{MinCandidateNodesPercentage: 10, MinCandidateNodesAbsolute: 100}

// A scenario as the file holds it; the kind of an item is in its own field.
type scenario struct {
	Cluster struct {
		Items []json.RawMessage `json:"items"`
	} `json:"cluster"`
	Pod v1.Pod `json:"pod"`
}

// A cluster inside upstream's scheduler, ready for a scheduling cycle.
type cluster struct {
	framework  framework.Framework
	preemption *defaultpreemption.DefaultPreemption
	nodes      []fwk.NodeInfo
	pod        *v1.Pod
}

func main() {
	rounds := flag.Int("rounds", 11, "how many `rounds`")
	turns := flag.Bool("turns", false, "wait for a line of standard input before each round")
	names := flag.String("candidates", "", "write the victims on each candidate node to this `file`")
	flag.Parse()
	if flag.NArg() != 1 {
		log.Fatal("usage: upstream [flags] SCENARIO")
	}
	ctx := klog.NewContext(context.Background(), klog.Logger{})
	cluster := build(ctx, read(flag.Arg(0)))
	runtime.GC()
	if _, found := cluster.round(ctx); *names != "" {
		write(*names, found)
	}
	out, in := json.NewEncoder(os.Stdout), bufio.NewScanner(os.Stdin)
	about := figures{"go": runtime.Version(), "GOMAXPROCS": runtime.GOMAXPROCS(0), "nodes": len(cluster.nodes)}
	try(out.Encode(about))
	measured := map[string][]float64{}
	for range *rounds {
		if *turns && !in.Scan() {
			break
		}
		figures, _ := cluster.round(ctx)
		try(out.Encode(figures))
		for name, value := range figures {
			if milliseconds, ok := value.(float64); ok {
				measured[name] = append(measured[name], milliseconds)
			}
		}
	}
	try(out.Encode(summary(measured)))
}

// One scheduling cycle of the pod, up to the choice; each cycle gets a new CycleState, as upstream does.
func (c *cluster) round(ctx context.Context) (figures, []preemption.Candidate) {
	figures, state := figures{}, framework.NewCycleState()
	figures.timed("prefilter", func() {
		if _, status, _ := c.framework.RunPreFilterPlugins(ctx, state, c.pod); !status.IsSuccess() {
			log.Fatalf("PreFilter: %v", status)
		}
	})
	statuses := make([]*fwk.Status, len(c.nodes))
	figures.timed("filter", func() {
		c.framework.Parallelizer().Until(ctx, len(c.nodes), func(i int) {
			statuses[i] = c.framework.RunFilterPluginsWithNominatedPods(ctx, state, c.pod, c.nodes[i])
		}, "Filter")
	})
	var tried []fwk.NodeInfo
	for i, status := range statuses {
		if status.Code() == fwk.Unschedulable {
			tried = append(tried, c.nodes[i])
		}
	}
	if len(tried) == 0 {
		log.Fatal("no node qualifies for a dry run: the pod fits everywhere, or eviction helps nowhere")
	}
	evaluator := c.preemption.Evaluator
	dryRun := func(offset, wanted int32) []preemption.Candidate {
		budgets, err := evaluator.PdbLister.List(labels.Everything())
		try(err)
		candidates, _, err := evaluator.DryRunPreemption(ctx, state, c.pod, tried, budgets, offset, wanted)
		try(err)
		return candidates
	}
	var found, sample []preemption.Candidate
	var best preemption.Candidate
	everyNode := int32(len(tried))
	figures.timed("exhaustive", func() { found = dryRun(0, everyNode+1) }) // one more than there can be: never stops early
	figures.timed("choice", func() { best = evaluator.SelectCandidate(ctx, found) })
	figures.timed("default", func() { sample = dryRun(c.preemption.GetOffsetAndNumCandidates(everyNode)) })
	figures["tried"], figures["default candidates"] = len(tried), len(sample)
	figures.count(found)
	if best != nil {
		figures["selected"] = best.Name()
	}
	return figures, found
}

// Figures by name; float64 values are milliseconds, all others are not.
type figures map[string]any

func (f figures) timed(name string, work func()) {
	wall, cpu := time.Now(), cpuTime()
	work()
	f[name+" cpu ms"] = milliseconds(cpuTime() - cpu)
	f[name+" wall ms"] = milliseconds(time.Since(wall))
}

func (f figures) count(found []preemption.Candidate) {
	victims, violations := 0, int64(0)
	for _, candidate := range found {
		victims += len(candidate.Victims().Pods)
		violations += candidate.Victims().NumPDBViolations
	}
	f["candidates"], f["victims"], f["violations"] = len(found), victims, violations
}

func summary(measured map[string][]float64) figures {
	found := figures{}
	for name, values := range measured {
		slices.Sort(values)
		n := len(values)
		found[name] = figures{"median": (values[(n-1)/2] + values[n/2]) / 2, "min": values[0], "max": values[n-1], "rounds": n}
	}
	return found
}

// The scheduler with the scenario's objects. Its informers are never started: the listers read what is put in here.
func build(ctx context.Context, scenario scenario) *cluster {
	client := fake.NewClientset()
	factory := scheduler.NewInformerFactory(client, 0)
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	sched, err := scheduler.New(ctx, client, factory, nil, profile.NewRecorderFactory(broadcaster))
	try(err)
	put(ctx, scenario.Cluster.Items, sched.Cache, factory)

	handle := sched.Profiles[v1.DefaultSchedulerName]
	snapshot := handle.SnapshotSharedLister().(*internalcache.Snapshot)
	try(sched.Cache.UpdateSnapshot(klog.FromContext(ctx), snapshot))
	nodes, err := snapshot.NodeInfos().List()
	try(err)
	features := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	plugin, err := defaultpreemption.New(ctx, &sampling, handle, features)
	try(err)
	return &cluster{framework: handle, preemption: plugin, nodes: nodes, pod: scenario.Pod.DeepCopy()}
}

func put(ctx context.Context, items []json.RawMessage, cache internalcache.Cache, factory informers.SharedInformerFactory) {
	logger := klog.FromContext(ctx)
	budgets := factory.Policy().V1().PodDisruptionBudgets().Informer().GetIndexer()
	namespaces := factory.Core().V1().Namespaces().Informer().GetIndexer()
	for _, item := range items {
		var which struct {
			Kind string `json:"kind"`
		}
		try(json.Unmarshal(item, &which))
		switch which.Kind {
		case "Node":
			cache.AddNode(logger, decode[v1.Node](item))
		case "Pod":
			pod := decode[v1.Pod](item)
			if pod.Spec.NodeName == "" {
				log.Fatalf("pod %s/%s is on no node: nominated pods are not measured", pod.Namespace, pod.Name)
			}
			try(cache.AddPod(logger, pod))
		case "PodDisruptionBudget":
			try(budgets.Add(decode[policy.PodDisruptionBudget](item)))
		case "Namespace":
			try(namespaces.Add(decode[v1.Namespace](item)))
		default:
			log.Fatalf("an item of kind %q: only nodes, pods, budgets and namespaces are measured", which.Kind)
		}
	}
}

// The candidates by node name: {"NODE": {"victims": [UID, ...], "numPDBViolations": N}, ...}.
func write(path string, found []preemption.Candidate) {
	type entry struct {
		Victims    []string `json:"victims"`
		Violations int64    `json:"numPDBViolations"`
	}
	named := map[string]entry{}
	for _, candidate := range found {
		uids := []string{}
		for _, pod := range candidate.Victims().Pods {
			uids = append(uids, string(pod.UID))
		}
		named[candidate.Name()] = entry{uids, candidate.Victims().NumPDBViolations}
	}
	content, err := json.Marshal(named)
	try(err)
	try(os.WriteFile(path, content, 0o644))
}

func read(path string) (found scenario) {
	content, err := os.ReadFile(path)
	try(err)
	if bytes.HasPrefix(content, []byte{0x1f, 0x8b}) {
		unpacked, err := gzip.NewReader(bytes.NewReader(content))
		try(err)
		content, err = io.ReadAll(unpacked)
		try(err)
	}
	try(json.Unmarshal(content, &found))
	return found
}

func decode[Object any](item json.RawMessage) *Object {
	object := new(Object)
	try(json.Unmarshal(item, object))
	return object
}

// User and system CPU time of this process.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	try(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func milliseconds(taken time.Duration) float64 {
	return float64(taken.Nanoseconds()) / 1e6
}

func try(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
