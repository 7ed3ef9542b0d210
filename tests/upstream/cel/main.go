// cel reads device selectors (JSON lines: expression, optionally device and driver) and prints, a line each and in the
// same order, what kube-scheduler's own code says of them: {"answer","cost"}, or {"crash":true} where it panics.
//
//	cel [-workers N] < selectors.jsonl > answers.jsonl
//	cel -version
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/dynamic-resource-allocation/cel"
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
// before it; Cost what evaluating took in CEL's units, if it was evaluated at all.
type answer struct {
	Answer string  `json:"answer,omitempty"`
	Cost   *uint64 `json:"cost,omitempty"`
	Crash  bool    `json:"crash,omitempty"`
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
	type job struct {
		line []byte
		done chan []byte
	}
	queue, order := make(chan job), make(chan job, 4*workers)
	// One expression is seldom asked for twice: the cache of compiled ones only has to be the one kube-scheduler asks.
	cache := cel.NewCache(10, features)
	for range workers {
		go func() {
			for each := range queue {
				each.done <- answerLine(cache, each.line)
			}
		}()
	}
	var broken error
	go func() {
		defer close(order)
		defer close(queue)
		reader := bufio.NewReader(in)
		for {
			line, err := reader.ReadBytes('\n')
			if len(bytes.TrimSpace(line)) > 0 {
				each := job{line, make(chan []byte, 1)}
				order <- each
				queue <- each
			}
			if err != nil {
				if !errors.Is(err, io.EOF) {
					broken = err
				}
				return
			}
		}
	}()
	writer := bufio.NewWriter(out)
	for each := range order {
		if _, err := writer.Write(append(<-each.done, '\n')); err != nil {
			return err
		}
		// The reader on the other end sends its next lines only once these are there.
		if len(order) == 0 {
			if err := writer.Flush(); err != nil {
				return err
			}
		}
	}
	if err := writer.Flush(); err != nil {
		return err
	}
	return broken
}

// answerLine returns the line for a line of the input. A line that is no question ends the program: it would shift
// every later answer.
func answerLine(cache *cel.Cache, line []byte) []byte {
	asked := question{Driver: defaultDriver}
	if err := json.Unmarshal(line, &asked); err != nil {
		fmt.Fprintf(os.Stderr, "cel: %v: %s\n", err, line)
		os.Exit(1)
	}
	if asked.Device == nil {
		asked.Device = &defaultDevice
	}
	var found bytes.Buffer
	encoder := json.NewEncoder(&found)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(ask(cache, asked)); err != nil {
		fmt.Fprintln(os.Stderr, "cel:", err)
		os.Exit(1)
	}
	return bytes.TrimSpace(found.Bytes())
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
