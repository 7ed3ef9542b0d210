package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"regexp"

	"upstream/internal/lines"
)

// supervise has the lines judged by a child process, because a panic in a goroutine that upstream started, or a fatal error
// of Go's runtime, ends a process. If that happens, each line that was left without an answer is given to a process of its
// own: the one at which that panics, too, is the crash. ahead: how many lines a child is given before it has answered the first.
func supervise(in io.Reader, out io.Writer, ahead int, merge bool, child func() *exec.Cmd) error {
	asked, failed := lines.Read(in)
	for {
		unanswered, _, err := askChild(child(), asked, ahead, out)
		if err != nil {
			return err
		}
		if len(unanswered) == 0 {
			return failed()
		}
		for _, line := range unanswered {
			if err := askAlone(child(), line, merge, out); err != nil {
				return err
			}
		}
	}
}

// thisProgram returns a child process that judges as this one was asked to.
func thisProgram() *exec.Cmd {
	program, err := os.Executable()
	if err != nil {
		program = os.Args[0]
	}
	return exec.Command(program, append([]string{"-child"}, os.Args[1:]...)...)
}

// askAlone has one line judged. If the child process panics at it, the answer is a crash; if it ends in another way, as by a
// signal, that upstream did not cause.
func askAlone(child *exec.Cmd, line []byte, merge bool, out io.Writer) error {
	asked := make(chan []byte, 1)
	asked <- line
	close(asked)
	unanswered, end, err := askChild(child, asked, 1, out)
	if err != nil || len(unanswered) == 0 {
		return err
	}
	var s scenario
	_ = json.Unmarshal(line, &s) // what cannot be read has been answered
	a := answer{ID: s.ID, Category: s.Category}
	if end.panicked != "" {
		a.Expected = crashOf(end.panicked)
	} else {
		a.Error = "the process that judges ended: " + end.state
	}
	_, err = out.Write(append(render(line, a, merge), '\n'))
	return err
}

// ending is how a child process ended.
type ending struct {
	panicked string // the first line of a panic or of a fatal error of Go's
	state    string
}

// askChild gives the lines to a child process. If that ends before it has answered all of them, the lines without an answer
// are returned, with its end; none at the end of the lines.
func askChild(child *exec.Cmd, lines <-chan []byte, ahead int, out io.Writer) (unanswered [][]byte, end ending, err error) {
	var stderr bytes.Buffer
	child.Stderr = &stderr
	stdin, err := child.StdinPipe()
	if err != nil {
		return nil, end, err
	}
	stdout, err := child.StdoutPipe()
	if err != nil {
		return nil, end, err
	}
	if err := child.Start(); err != nil {
		return nil, end, err
	}
	over := make(chan struct{})
	sent := feed(lines, stdin, ahead, over)
	answers := bufio.NewReader(stdout)
	for line := range sent {
		text, err := answers.ReadBytes('\n')
		if err != nil {
			unanswered = [][]byte{line}
			break
		}
		if _, err := out.Write(text); err != nil {
			_ = child.Process.Kill()
			return nil, end, err
		}
	}
	close(over)
	for line := range sent {
		unanswered = append(unanswered, line)
	}
	_ = child.Wait() // its state says more
	end.state = child.ProcessState.String()
	if found := fatalText.FindSubmatch(stderr.Bytes()); found != nil {
		end.panicked = string(found[1])
	}
	return unanswered, end, nil
}

// feed writes lines to a child process until they or the child are over, and sends each one that it has taken from lines.
func feed(lines <-chan []byte, stdin io.WriteCloser, ahead int, over <-chan struct{}) <-chan []byte {
	sent := make(chan []byte, ahead)
	go func() {
		defer close(sent)
		defer stdin.Close()
		for {
			select {
			case <-over:
				return
			case line, ok := <-lines:
				if !ok {
					return
				}
				sent <- line
				// An error means that the child has ended, which its output shows.
				_, _ = stdin.Write(append(line, '\n'))
			}
		}
	}()
	return sent
}

var fatalText = regexp.MustCompile(`(?m)^(?:panic|fatal error): (.*)$`)
