// Judge reads scenarios (JSON lines: id, category, cluster, pod, optionally config) and prints what kube-scheduler's own
// code says of each, a line each and in the same order: {"id","category","expected"}, or {"id","category","error"} where
// there is nothing to judge. See ../README.md.
//
//	judge [-workers N] [-merge] [-feature-gates A=false,...] < scenarios.jsonl > verdicts.jsonl
//	judge -gates
//	judge -version
package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
)

// version is the release of Kubernetes that judges, set by the linker.
var version = "unknown"

func main() {
	workers := flag.Int("workers", 2, "scenarios at a time")
	merge := flag.Bool("merge", false, `print the scenario with its verdict as "expected"`)
	gates := flag.Bool("gates", false, "print the feature gates in force, their stages and stop")
	release := flag.Bool("version", false, "print the release of Kubernetes that judges and stop")
	set := flag.String("feature-gates", "", "feature gates that are not as this release has them, as of kube-scheduler: `Name=true|false,...`")
	child := flag.Bool("child", false, "used by the judge itself: judge in this process, which a crash of upstream may end")
	flag.Parse()
	if err := utilfeature.DefaultMutableFeatureGate.Set(*set); err != nil {
		exit(err)
	}
	if *workers < 1 || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	silence()
	var err error
	switch {
	case *release:
		fmt.Println(version)
	case *gates:
		printGates()
	case *child:
		err = judgeLines(os.Stdin, os.Stdout, *workers, *merge)
	default:
		err = supervise(os.Stdin, os.Stdout, 4**workers, *merge, thisProgram)
	}
	if err != nil {
		exit(err)
	}
}

func exit(err error) {
	fmt.Fprintln(os.Stderr, "error:", err)
	os.Exit(2)
}

// silence keeps upstream's log off the output; a panic that upstream recovers from is read from it.
func silence() {
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	klog.InitFlags(flags)
	for name, value := range map[string]string{"logtostderr": "false", "alsologtostderr": "false", "stderrthreshold": "FATAL"} {
		_ = flags.Set(name, value)
	}
	klog.SetOutput(panicWatcher{})
	utilruntime.ErrorHandlers = nil
	utilruntime.ReallyCrash = false
}

func printGates() {
	var lines []string
	for name, spec := range utilfeature.DefaultMutableFeatureGate.GetAll() {
		state := "off"
		if utilfeature.DefaultFeatureGate.Enabled(name) {
			state = "on"
		}
		stage := cmp.Or(strings.ToLower(string(spec.PreRelease)), "ga")
		if spec.LockToDefault {
			stage = "locked"
		}
		lines = append(lines, fmt.Sprintf("%s: %s, %s", name, state, stage))
	}
	slices.Sort(lines)
	for _, line := range lines {
		fmt.Println(line)
	}
}
