// cel reads device selectors (JSON lines: expression, optionally device and driver) and prints, a line each and in the
// same order, what kube-scheduler's own code says of them: {"answer","cost"}, {"crash":true} where it panics, or {"error"} where a line cannot be read.
//
//	cel [-workers N] < selectors.jsonl > answers.jsonl
//	cel -version
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/dynamic-resource-allocation/cel"

	"upstream/internal/lines"
)

// version is the release of Kubernetes that the selectors are compiled by, set by the linker.
var version = "unknown"

// features are the package's feature gates as kube-scheduler has them by default.
var features = cel.Features{EnableConsumableCapacity: true}

// question is one line of the input. Without a device the default one answers, without a driver the default one's.
type question struct {
	Expression string              `json:"expression"`
	Device     *resourceapi.Device `json:"device"`
	Driver     string              `json:"driver"`
}

// answer is one line of the output. Answer holds "true", "false", or an error with the prefix that the allocator puts
// before it; Cost what evaluating took in CEL's units, if it was evaluated at all; Error why the line cannot be
// read.
type answer struct {
	Answer string  `json:"answer,omitempty"`
	Cost   *uint64 `json:"cost,omitempty"`
	Crash  bool    `json:"crash,omitempty"`
	Error  string  `json:"error,omitempty"`
}

const defaultDriver = "gpu.example.com"

// recoveredPanic is what cel-go begins the error with that it makes of a panic of its own.
const recoveredPanic = "internal error: "

func pointer[T any](value T) *T { return &value }

var defaultDevice = resourceapi.Device{
	Name: "d0",
	Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
		"model": {StringValue: pointer("h100")},
		"index": {IntValue: pointer[int64](1)},
		"ok":    {BoolValue: pointer(true)},
		"ver":   {VersionValue: pointer("1.2.3")},
		"re":    {StringValue: pointer("(")},
	},
	Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse("80Gi")}},
}

func main() {
	workers := flag.Int("workers", 2, "selectors at a time")
	printVersion := flag.Bool("version", false, "print the version of Kubernetes and stop")
	flag.Parse()
	if *workers < 1 || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	if *printVersion {
		fmt.Println(version)
		return
	}
	if err := run(os.Stdin, os.Stdout, *workers); err != nil {
		fmt.Fprintln(os.Stderr, "cel:", err)
		os.Exit(1)
	}
}

// run answers the lines of in on out, some at a time but in their order.
func run(in io.Reader, out io.Writer, workers int) error {
	// One expression is seldom asked for twice: the cache of compiled ones only has to be the one kube-scheduler asks.
	cache := cel.NewCache(10, features)
	return lines.Answer(in, out, workers, func(line []byte) []byte { return answerLine(cache, line) })
}

// answerLine returns the line for a line of the input.
func answerLine(cache *cel.Cache, line []byte) []byte {
	asked := question{Driver: defaultDriver}
	if err := json.Unmarshal(line, &asked); err != nil {
		return render(answer{Error: err.Error()})
	}
	if asked.Device == nil {
		asked.Device = &defaultDevice
	}
	return render(ask(cache, asked))
}

// render returns a line of the output. An answer always can be: it holds texts and a number.
func render(found answer) []byte {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(found)
	return bytes.TrimSpace(text.Bytes())
}

// ask compiles and evaluates a selector as the allocator of kube-scheduler does. It compares no requests and names
// neither claim nor device.
func ask(cache *cel.Cache, asked question) (found answer) {
	defer func() {
		if recover() != nil {
			found = answer{Crash: true}
		}
	}()
	compiled := cache.GetOrCompile(asked.Expression)
	if compiled.Error != nil {
		return answer{Answer: fmt.Sprintf("CEL compile error: %v", compiled.Error)}
	}
	matches, details, err := compiled.DeviceMatches(context.Background(), cel.Device{
		Driver:                   asked.Driver,
		AllowMultipleAllocations: asked.Device.AllowMultipleAllocations,
		Attributes:               asked.Device.Attributes,
		Capacity:                 asked.Device.Capacity,
	})
	if details != nil {
		found.Cost = details.ActualCost()
	}
	if err != nil && strings.HasPrefix(err.Error(), recoveredPanic) {
		return answer{Crash: true}
	}
	if err != nil {
		found.Answer = fmt.Sprintf("CEL runtime error: %v", explained(err))
		return found
	}
	found.Answer = fmt.Sprint(matches)
	return found
}
