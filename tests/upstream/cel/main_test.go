package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestALineThatCannotBeReadIsAnErrorOfItsOwn(t *testing.T) {
	var out bytes.Buffer
	asked := "{\"expression\":\"true\"}\nnonsense\n{\"expression\":\"false\"}\n"
	if err := run(strings.NewReader(asked), &out, 2); err != nil {
		t.Fatal(err)
	}
	var found []answer
	for line := range strings.Lines(out.String()) {
		var one answer
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatal(err)
		}
		found = append(found, one)
	}
	if len(found) != 3 || found[0].Answer != "true" || found[1].Error == "" || found[1].Answer != "" || found[2].Answer != "false" {
		t.Errorf("%s", out.String())
	}
}
