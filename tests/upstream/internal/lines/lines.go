// Package lines answers the lines of a stream, some at a time but in their order.
package lines

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// Read sends each line that is not blank, of any length, and closes the channel at the end of the input. From then on failed
// returns the error that ended it, if it was not the input's end.
func Read(in io.Reader) (lines <-chan []byte, failed func() error) {
	var broken error
	out := make(chan []byte)
	go func() {
		defer close(out)
		reader := bufio.NewReaderSize(in, 1<<20)
		for {
			line, err := reader.ReadBytes('\n')
			if line = bytes.TrimSpace(line); len(line) > 0 {
				out <- line
			}
			if err != nil {
				if !errors.Is(err, io.EOF) {
					broken = err
				}
				return
			}
		}
	}()
	return out, func() error { return broken }
}

// Answer writes a line for each line of the input, as soon as those before it are written: whoever sends the lines may wait
// for an answer before the next one.
func Answer(in io.Reader, out io.Writer, workers int, answer func(line []byte) []byte) error {
	type job struct {
		line []byte
		done chan []byte
	}
	queue, order := make(chan job, workers), make(chan job, 4*workers)
	for range workers {
		go func() {
			for j := range queue {
				j.done <- answer(j.line)
			}
		}()
	}
	lines, failed := Read(in)
	go func() {
		defer close(order)
		defer close(queue)
		for line := range lines {
			j := job{line, make(chan []byte, 1)}
			order <- j
			queue <- j
		}
	}()
	for j := range order {
		if _, err := out.Write(append(<-j.done, '\n')); err != nil {
			return err
		}
	}
	return failed()
}
