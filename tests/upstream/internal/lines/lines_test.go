package lines

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestAnswersAreInTheOrderOfTheLines(t *testing.T) {
	var out bytes.Buffer
	second := make(chan bool)
	err := Answer(strings.NewReader("first\n\n second \nlast"), &out, 2, func(line []byte) []byte {
		switch string(line) {
		case "first":
			<-second
		case "second":
			close(second)
		}
		return bytes.ToUpper(line)
	})
	if err != nil || out.String() != "FIRST\nSECOND\nLAST\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

func TestAnErrorOfTheInputIsReturned(t *testing.T) {
	broken := errors.New("is a directory")
	var out bytes.Buffer
	in := io.MultiReader(strings.NewReader("first\n"), iotest.ErrReader(broken))
	err := Answer(in, &out, 1, func(line []byte) []byte { return line })
	if !errors.Is(err, broken) || out.String() != "first\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}
