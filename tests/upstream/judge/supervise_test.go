package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

const childTest = "-test.run=^TestChild$"

// child is this test binary, as a process that TestChild plays.
func child() *exec.Cmd {
	cmd := exec.Command(os.Args[0], childTest)
	cmd.Env = append(os.Environ(), "JUDGE_CHILD=1")
	return cmd
}

// TestChild answers each line with itself. At "die" a goroutine panics, which nothing can recover from; at "kill" the process
// is killed, as by a kernel that is out of memory.
func TestChild(*testing.T) {
	if os.Getenv("JUDGE_CHILD") == "" {
		return
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "die") {
			go func() { panic("at last") }()
			time.Sleep(time.Minute)
		}
		if strings.Contains(lines.Text(), "kill") {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		fmt.Println(lines.Text())
	}
	os.Exit(0)
}

func TestSuperviseGoesOnAfterACrash(t *testing.T) {
	var in, want []string
	for i := range 40 {
		line := fmt.Sprintf(`{"id":"%d"}`, i)
		if i%13 == 5 {
			line = fmt.Sprintf(`{"id":"die-%d","category":"c"}`, i)
		}
		in = append(in, line)
		want = append(want, line)
	}
	var out bytes.Buffer
	if err := supervise(strings.NewReader(strings.Join(in, "\n\n")), &out, 8, false, child); err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(got) != len(want) {
		t.Fatalf("%d answers to %d lines: %s", len(got), len(want), out.String())
	}
	for i, line := range got {
		if !strings.Contains(want[i], "die") {
			if line != want[i] {
				t.Errorf("line %d: %s, not %s", i, line, want[i])
			}
			continue
		}
		var a answer
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			t.Fatal(err)
		}
		if a.ID != fmt.Sprintf("die-%d", i) || a.Category != "c" || a.Expected == nil || a.Expected.Crash != "at last" {
			t.Errorf("line %d: %s", i, line)
		}
	}
}

func TestAKilledChildIsNoCrashOfUpstream(t *testing.T) {
	var out bytes.Buffer
	in := strings.NewReader("{\"id\":\"a\"}\n{\"id\":\"kill\",\"category\":\"c\"}\n{\"id\":\"b\"}\n")
	if err := supervise(in, &out, 8, false, child); err != nil {
		t.Fatal(err)
	}
	want := `{"id":"a"}
{"id":"kill","category":"c","error":"the process that judges ended: signal: killed"}
{"id":"b"}
`
	if out.String() != want {
		t.Errorf("%s, not %s", out.String(), want)
	}
}

func TestAnErrorOfTheInputIsReturnedAfterTheAnswers(t *testing.T) {
	broken := errors.New("is a directory")
	var out bytes.Buffer
	in := io.MultiReader(strings.NewReader("{\"id\":\"a\"}\n"), iotest.ErrReader(broken))
	if err := supervise(in, &out, 8, false, child); !errors.Is(err, broken) || out.String() != "{\"id\":\"a\"}\n" {
		t.Errorf("%v after %s", err, out.String())
	}
}

func TestALineThatCannotBeReadIsAnErrorOfItsOwn(t *testing.T) {
	lines := []string{`{"id":"a","cluster":[]}`, `nonsense`, `{"id":"b"}`, `{"id":"c","cluster":{"items":[{"kind":"Nothing"}]}}`, `[]`}
	var out bytes.Buffer
	if err := judgeLines(strings.NewReader(strings.Join(lines, "\n")), &out, 2, true); err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
		var a answer
		if err := json.Unmarshal([]byte(line), &a); err != nil || a.Error == "" || a.Expected != nil {
			t.Errorf("line %d: %s (%v)", i, line, err)
		}
		if want := []string{"a", "", "b", "c", ""}[i]; a.ID != want {
			t.Errorf("line %d: id %q, not %q", i, a.ID, want)
		}
	}
}

func TestAPanicThatUpstreamRecoversFromIsSeen(t *testing.T) {
	silence()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer utilruntime.HandleCrash()
		panic("in a goroutine")
	}()
	<-done
	if text := crashes.take(); text != "in a goroutine" {
		t.Errorf("seen: %q", text)
	}
}
