package ns3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/zeebo/xxh3"

	"parsimon/simkernel"
	"parsimon/simkernel/linkcase"
)

// Simulator simulates link cases, each in a process. It is safe for use by several goroutines.
type Simulator struct {
	Path    string        // of the program, or its name in PATH
	Timeout time.Duration // of one case; 0: none
	Scratch string        // directory in which cases have their directories while they run
}

// Identity returns a digest of the program and of the version of this package. Results of different identities must
// not be mixed.
func (n *Simulator) Identity() (string, error) {
	if n.Path == "" {
		return "", errors.New("ns-3: no program is given (--ns3)")
	}
	path, err := exec.LookPath(n.Path)
	if err != nil {
		return "", fmt.Errorf("ns-3: %w", err)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("ns-3: %w", err)
	}
	defer func() { _ = f.Close() }() // read only
	h := xxh3.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("ns-3: %s: %w", path, err)
	}
	return fmt.Sprintf("ns3 %d %016x", version, h.Sum64()), nil
}

// version changes whenever the same link case is written differently.
const version = 1

// Simulate sets the FCTs and ideal FCTs of r; its counters and waits become 0. targetDelayNS is the propagation
// delay of the target. Transports and constants that ns-3 cannot be configured for are an error, as are an ns-3
// that fails, takes longer than the timeout or does not report each flow once.
func (n *Simulator) Simulate(ctx context.Context, c *linkcase.Case, targetDelayNS int64, p *simkernel.Params,
	r *linkcase.Result) error {
	flows := len(c.StartNS)
	resetResult(r, flows)
	if flows == 0 {
		return nil
	}
	files, err := newNetCase(c, targetDelayNS, p)
	if err != nil {
		return err
	}
	// A relative path refers to this directory, not to that of the case.
	program, err := exec.LookPath(n.Path)
	if err == nil {
		program, err = filepath.Abs(program)
	}
	if err != nil {
		return fmt.Errorf("ns-3: %w", err)
	}
	dir, err := os.MkdirTemp(n.Scratch, "ns3-*")
	if err != nil {
		return err
	}
	err = files.write(dir)
	if err == nil {
		err = n.run(ctx, program, dir, flows)
	}
	if err == nil {
		err = files.read(dir, r)
	}
	if removeErr := os.RemoveAll(dir); err == nil {
		err = removeErr
	}
	return err
}

func resetResult(r *linkcase.Result, flows int) {
	r.FCTNS = slices.Grow(r.FCTNS[:0], flows)[:flows]
	r.IdealNS = slices.Grow(r.IdealNS[:0], flows)[:flows]
	r.WaitNS = slices.Grow(r.WaitNS[:0], flows)[:flows]
	clear(r.WaitNS)
	r.Observed = r.Observed[:0]
	r.Unfinished, r.Counters = 0, linkcase.Counters{}
}

// poll is the interval at which the file of FCTs is checked.
const poll = 5 * time.Millisecond

// run runs the program until it ends or has written as many FCTs as there are flows; timers of idle flows can keep
// it running long after that. It is the leader of a process group, which is killed as a whole.
func (n *Simulator) run(ctx context.Context, program, dir string, flows int) error {
	if n.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, n.Timeout, fmt.Errorf("ns-3 took longer than %v", n.Timeout))
		defer cancel()
	}
	var output tail
	cmd := exec.CommandContext(ctx, program, configFile)
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second // for processes that have left the group and keep its output open
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("ns-3: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	count := lineCounter{path: filepath.Join(dir, fctFile)}
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			if count.lines() >= flows {
				return nil // all FCTs are there, however it ended
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil {
				return fmt.Errorf("ns-3 failed (%w) with %d of %d flows finished%s", err, count.n, flows,
					output.lastLine())
			}
			return fmt.Errorf("ns-3 ended with %d of %d flows finished%s", count.n, flows, output.lastLine())
		case <-tick.C:
			if count.lines() >= flows {
				_ = cmd.Cancel() // it may have ended meanwhile
				<-ended
				return nil
			}
		}
	}
}

// lineCounter counts the complete lines of a file that grows.
type lineCounter struct {
	path string
	at   int64
	n    int
}

// lines returns the number of lines so far; 0 if there is no file.
func (l *lineCounter) lines() int {
	f, err := os.Open(l.path)
	if err != nil {
		return l.n
	}
	defer func() { _ = f.Close() }() // read only
	var buf [1 << 14]byte
	for {
		k, err := f.ReadAt(buf[:], l.at)
		l.n += bytes.Count(buf[:k], []byte{'\n'})
		l.at += int64(k)
		if err != nil || k == 0 {
			return l.n
		}
	}
}

// tail keeps the last bytes that are written to it.
type tail struct{ text []byte }

const tailBytes = 2000

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	t.text = append(t.text, b...)
	if over := len(t.text) - tailBytes; over > tailBytes {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(b), nil
}

// lastLine quotes the last line that is not a clock reading, for an error message; "" if there is none.
func (t *tail) lastLine() string {
	lines := bytes.Split(t.text, []byte{'\n'})
	for i := len(lines) - 1; i >= 0; i-- {
		line := bytes.TrimSpace(lines[i])
		if len(line) > 0 && !bytes.HasPrefix(line, []byte("t = ")) {
			return fmt.Sprintf("; last output: %q", line[max(0, len(line)-300):])
		}
	}
	return ""
}
