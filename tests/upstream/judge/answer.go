package main

import (
	"encoding/json"
	"io"

	"upstream/internal/lines"
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
	return lines.Answer(in, out, workers, func(line []byte) []byte { return judgeLine(line, merge) })
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
	return text
}
