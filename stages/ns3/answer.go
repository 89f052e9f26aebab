package ns3

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"parsimon/simkernel/linkcase"
)

// read reads the FCTs from the file that ns-3 wrote:
//
//	flow source destination port port size start FCT ideal
//
// The ideal in the file is ns-3's own and is not used. An FCT that is impossible for the case is an error.
func (n *netCase) read(dir string, r *linkcase.Result) error {
	text, err := os.ReadFile(filepath.Join(dir, fctFile))
	if err != nil {
		return fmt.Errorf("ns-3: %w", err)
	}
	for i := range r.FCTNS {
		r.FCTNS[i] = -1
	}
	n.setIdeals(r)
	for line, fields := range lines(text) {
		if err := n.readLine(fields, r); err != nil {
			return fmt.Errorf("ns-3: %s, line %d: %w", fctFile, line+1, err)
		}
	}
	if i := slices.Index(r.FCTNS, -1); i >= 0 {
		return fmt.Errorf("ns-3: %s has no line for flow row %d of the case", fctFile, i)
	}
	pauses, err := os.ReadFile(filepath.Join(dir, pfcFile))
	if err == nil && len(bytes.TrimSpace(pauses)) > 0 {
		err = errors.New("ns-3 paused a link: its buffers are too small for the case")
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// readLine sets the FCT of one flow.
func (n *netCase) readLine(fields [][]byte, r *linkcase.Result) error {
	if len(fields) < 8 {
		return fmt.Errorf("%d fields, want 9", len(fields))
	}
	row, err := strconv.Atoi(string(fields[0]))
	if err != nil || row < 0 || row >= len(r.FCTNS) || r.FCTNS[row] >= 0 {
		return fmt.Errorf("flow %q is not one of the %d of the case, or is listed twice", fields[0], len(r.FCTNS))
	}
	fct, err := strconv.ParseInt(string(fields[7]), 10, 64)
	if err != nil || fct <= 0 {
		return fmt.Errorf("FCT %q", fields[7])
	}
	// Where a time is a whole number of ns, ns-3 can lose one ns for each packet.
	ideal := r.IdealNS[row]
	if slack := 2*n.p.Packets(n.c.SizeBytes[row]) + 20; fct < ideal-slack {
		return fmt.Errorf("FCT of %d ns, below the ideal FCT of %d ns: another case was simulated", fct, ideal)
	}
	r.FCTNS[row] = max(fct, ideal)
	return nil
}

// lines iterates over the complete lines of a text, each as fields.
func lines(text []byte) func(yield func(int, [][]byte) bool) {
	return func(yield func(int, [][]byte) bool) {
		n := 0
		for line := range bytes.Lines(text) {
			if !bytes.HasSuffix(line, []byte{'\n'}) || !yield(n, bytes.Fields(line)) {
				return // the last line may be incomplete
			}
			n++
		}
	}
}

// setIdeals sets the ideal FCT of each flow in the network of the case (simkernel.IdealPath has the formula), with
// transmission times truncated to whole ns as in ns-3.
func (n *netCase) setIdeals(r *linkcase.Result) {
	c, p := n.c, n.p
	for i, size := range c.SizeBytes {
		s := c.Source[i]
		hops := append(make([]int64, 0, 3), c.SourceBps[s])
		propagationNS := c.SourceDelayNS[s] + n.target.delayNS
		if c.Kind != linkcase.FirstHop {
			hops = append(hops, n.target.bps)
		}
		if n.behind {
			hops = append(hops, behindFactor*n.target.bps)
			propagationNS += n.behindNS(i)
		}
		packets := p.Packets(size)
		last := size - (packets-1)*p.PayloadBytes + p.HeaderBytes
		var lastSum, fullSum, fullMax, best int64
		for _, bps := range hops {
			lastSum += last * 8e9 / bps
		}
		if packets == 1 {
			best = lastSum
		} else {
			for _, bps := range hops {
				full := (p.PayloadBytes + p.HeaderBytes) * 8e9 / bps
				fullSum += full
				fullMax = max(fullMax, full)
				best = max(best, fullSum+(packets-2)*fullMax+lastSum)
				lastSum -= last * 8e9 / bps
			}
		}
		r.IdealNS[i] = propagationNS + best
	}
}
