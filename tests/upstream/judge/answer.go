package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
)

// answer is one line of the output.
type answer struct {
	ID       string   `json:"id,omitempty"`
	Category string   `json:"category,omitempty"`
	Expected *verdict `json:"expected,omitempty"`
	Error    string   `json:"error,omitempty"`
}

// judgeLines judges as many scenarios at a time as there are workers, and writes the answers in the order of the lines.
func judgeLines(in io.Reader, out io.Writer, workers int, merge bool) error {
	type job struct {
		line []byte
		done chan []byte
	}
	queue, order := make(chan job, workers), make(chan job, 4*workers)
	for range workers {
		go func() {
			for j := range queue {
				j.done <- judgeLine(j.line, merge)
			}
		}()
	}
	go func() {
		defer close(order)
		defer close(queue)
		for line := range readLines(in) {
			j := job{line, make(chan []byte, 1)}
			order <- j
			queue <- j
		}
	}()
	for j := range order {
		if _, err := out.Write(<-j.done); err != nil {
			return err
		}
	}
	return nil
}

// readLines sends each line that is not blank, of any length, until the input ends.
func readLines(in io.Reader) <-chan []byte {
	lines := make(chan []byte)
	go func() {
		defer close(lines)
		reader := bufio.NewReaderSize(in, 1<<20)
		for {
			line, err := reader.ReadBytes('\n')
			if line = bytes.TrimSpace(line); len(line) > 0 {
				lines <- line
			}
			if err != nil {
				return
			}
		}
	}()
	return lines
}

func judgeLine(line []byte, merge bool) []byte {
	var s scenario
	if err := json.Unmarshal(line, &s); err != nil {
		return render(line, answer{ID: s.ID, Category: s.Category, Error: err.Error()}, merge)
	}
	a := answer{ID: s.ID, Category: s.Category}
	v, err := judgeSafely(&s)
	if err != nil {
		a.Error = err.Error()
	} else {
		a.Expected = v
	}
	return render(line, a, merge)
}

// render returns a line of the output: the answer alone, or the scenario with the verdict in it.
func render(line []byte, a answer, merge bool) []byte {
	text, err := json.Marshal(a)
	if merge && a.Expected != nil {
		var whole map[string]json.RawMessage
		if err = json.Unmarshal(line, &whole); err == nil {
			if whole["expected"], err = json.Marshal(a.Expected); err == nil {
				text, err = json.Marshal(whole)
			}
		}
	}
	if err != nil {
		text, _ = json.Marshal(answer{ID: a.ID, Category: a.Category, Error: err.Error()})
	}
	return append(text, '\n')
}
