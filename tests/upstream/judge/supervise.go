package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"regexp"
)

// supervise has the lines judged by a child process, because a panic in a goroutine that upstream started, or a fatal error
// of Go's runtime, ends a process. If that happens, each line that was left without an answer is given to a process of its
// own: the one at which that ends, too, is the crash. ahead: how many lines a child is given before it has answered the first.
func supervise(in io.Reader, out io.Writer, ahead int, merge bool, child func() *exec.Cmd) error {
	lines := readLines(in)
	for {
		unanswered, _, err := askChild(child(), lines, ahead, out)
		if err != nil || len(unanswered) == 0 {
			return err
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

// askAlone has one line judged; if the child process ends at it, the answer is a crash.
func askAlone(child *exec.Cmd, line []byte, merge bool, out io.Writer) error {
	lines := make(chan []byte, 1)
	lines <- line
	close(lines)
	unanswered, last, err := askChild(child, lines, 1, out)
	if err != nil || len(unanswered) == 0 {
		return err
	}
	var s scenario
	_ = json.Unmarshal(line, &s) // what cannot be read has been answered
	_, err = out.Write(render(line, answer{ID: s.ID, Category: s.Category, Expected: crashOf(last)}, merge))
	return err
}

// askChild gives the lines to a child process. If that ends before it has answered all of them, the lines without an answer
// are returned, with its last words; none at the end of the lines.
func askChild(child *exec.Cmd, lines <-chan []byte, ahead int, out io.Writer) (unanswered [][]byte, last string, err error) {
	var stderr bytes.Buffer
	child.Stderr = &stderr
	stdin, err := child.StdinPipe()
	if err != nil {
		return nil, "", err
	}
	stdout, err := child.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if err := child.Start(); err != nil {
		return nil, "", err
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
			return nil, "", err
		}
	}
	close(over)
	for line := range sent {
		unanswered = append(unanswered, line)
	}
	_ = child.Wait()
	return unanswered, lastWords(stderr.Bytes()), nil
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

// lastWords finds out from a child's standard error what ended it.
func lastWords(stderr []byte) string {
	if found := fatalText.FindSubmatch(stderr); found != nil {
		return string(found[1])
	}
	return "the process ended"
}
