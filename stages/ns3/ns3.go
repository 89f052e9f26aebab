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
)

// NS3 runs link cases in ns-3: the RDMA simulator of HPCC's authors with the changes of Parsimon's
// (kwzhao/High-Precision-Congestion-Control, branch parsimon), as a process a case. It serves several
// goroutines at once.
type Simulator struct {
	Path    string        // the program
	Timeout time.Duration // what one case may take; 0: without end
	Scratch string        // directory that holds a directory for each case while it runs
}

// Identity is a digest of the program: results of another build are not taken for this one's.
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
	defer func() { _ = f.Close() }() // it was only read
	h := xxh3.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("ns-3: %s: %w", path, err)
	}
	return fmt.Sprintf("ns3 %d %016x", version, h.Sum64()), nil
}

// ns3Version changes whenever the same link case is written otherwise.
const version = 1

// Simulate answers the FCTs and ideals of a case into r, whose counters and waits are then 0. The
// target's delay is of its propagation.
func (n *Simulator) Simulate(ctx context.Context, c *simkernel.Case, targetDelayNS int64, p *simkernel.Params, r *simkernel.Result) error {
	flows := len(c.StartNS)
	r.FCTNS, r.IdealNS, r.WaitNS = slices.Grow(r.FCTNS[:0], flows)[:flows], slices.Grow(r.IdealNS[:0], flows)[:flows], slices.Grow(r.WaitNS[:0], flows)[:flows]
	r.Observed = r.Observed[:0]
	r.Unfinished, r.Counters = 0, simkernel.Counters{}
	clear(r.WaitNS)
	if flows == 0 {
		return nil
	}
	files, err := newNetCase(c, targetDelayNS, p)
	if err != nil {
		return err
	}
	// A relative program is found from here, not from where it runs.
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
	if gone := os.RemoveAll(dir); err == nil {
		err = gone
	}
	return err
}

// poll is how often a process is looked after: whether all its flows have finished.
const poll = 5 * time.Millisecond

// run runs the program until it ends or has written as many FCTs as there are flows: timers of idle
// flows can keep it going for long after that. It is the leader of a group of processes, which ends as
// a whole.
func (n *Simulator) run(ctx context.Context, program, dir string, flows int) error {
	if n.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, n.Timeout, fmt.Errorf("ns-3 took longer than %v", n.Timeout))
		defer cancel()
	}
	var said tail
	cmd := exec.CommandContext(ctx, program, configFile)
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second // for who has left the group and holds its output open
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
				return nil // whatever it died of after its work
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil {
				return fmt.Errorf("ns-3 failed (%w) with %d of %d flows finished%s", err, count.n, flows, said.quote())
			}
			return fmt.Errorf("ns-3 ended with %d of %d flows finished%s", count.n, flows, said.quote())
		case <-tick.C:
			if count.lines() >= flows {
				_ = cmd.Cancel() // it may be gone by itself
				<-ended
				return nil
			}
		}
	}
}

// A lineCounter counts the complete lines of a file that grows.
type lineCounter struct {
	path string
	at   int64
	n    int
}

// lines is their number by now; of a file that is not there, 0.
func (l *lineCounter) lines() int {
	f, err := os.Open(l.path)
	if err != nil {
		return l.n
	}
	defer func() { _ = f.Close() }() // it was only read
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

// A tail keeps the end of what is written to it.
type tail struct{ text []byte }

const tailBytes = 2000

func (t *tail) Write(b []byte) (int, error) {
	t.text = append(t.text, b...)
	if over := len(t.text) - tailBytes; over > tailBytes {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(b), nil
}

// quote is its last line that says anything, for an error.
func (t *tail) quote() string {
	lines := bytes.Split(t.text, []byte{'\n'})
	for i := len(lines) - 1; i >= 0; i-- {
		line := bytes.TrimSpace(lines[i])
		if len(line) > 0 && !bytes.HasPrefix(line, []byte("t = ")) { // its clock
			return fmt.Sprintf("; it said %q", line[max(0, len(line)-300):])
		}
	}
	return ""
}
