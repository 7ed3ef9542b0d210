package main

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"sync"
)

// crashes are upstream's panics, in whatever goroutine of its own: the log does not say at which scenario. So the scenarios
// that ran meanwhile are judged again, each alone.
var crashes crashLog

type crashLog struct {
	running sync.RWMutex // held alone by a scenario that is judged again
	mutex   sync.Mutex
	last    string
}

// panicWatcher reads upstream's log, which tells of a panic in the same words in every version.
type panicWatcher struct{}

var panicText = regexp.MustCompile(`panic="((?:[^"\\]|\\.)*)"|Observed a panic: ([^\n]*)`)

func (panicWatcher) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("Observed a panic")) {
		text := "panic"
		if found := panicText.FindSubmatch(line); found != nil {
			text = string(found[1]) + string(found[2])
		}
		crashes.note(text)
	}
	return len(line), nil
}

func (c *crashLog) note(text string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.last = text
}

func (c *crashLog) seen() bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.last != ""
}

// take returns the last crash, and forgets it.
func (c *crashLog) take() string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	text := c.last
	c.last = ""
	return text
}

// judgeSafely judges, and notes a panic of upstream as a crash of the scenario at which it happens.
func judgeSafely(s *scenario) (*verdict, error) {
	crashes.running.RLock()
	v, err := judgeRecovering(s)
	crashed := crashes.seen()
	crashes.running.RUnlock()
	if !crashed {
		return v, err
	}
	crashes.running.Lock()
	defer crashes.running.Unlock()
	crashes.take()
	v, err = judgeRecovering(s)
	if text := crashes.take(); text != "" {
		return crashOf(text), nil
	}
	return v, err
}

// judgeRecovering recovers from panics in the goroutine that asks.
func judgeRecovering(s *scenario) (v *verdict, err error) {
	defer func() {
		if text := recover(); text != nil {
			v, err = crashOf(fmt.Sprint(text)), nil
		}
	}()
	return judge(context.Background(), s)
}

// crashOf returns the verdict on a scenario at which upstream panics.
func crashOf(text string) *verdict {
	v := newVerdict()
	v.Eligible = [2]any{true, ""}
	v.Crash = text
	return v
}
