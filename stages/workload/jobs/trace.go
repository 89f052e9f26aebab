package jobs

import (
	"bufio"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// A Trace has the operations of a recorded or generated job, by rank, and their dependencies. ReadGOAL,
// ReadHtsim, ReadSimCCL and ReadChakra create one.
type Trace struct {
	Ranks int
	ops   []op
	// equalSizes means that a message and its receive have equal sizes. Otherwise the receive may be larger,
	// as for MPI, where a receive has a buffer.
	equalSizes bool
	memory     memory
}

// An op is one operation of a rank. It begins when all of after have ended and all of starts have begun.
type op struct {
	kind          opKind
	oneSided      bool  // of a send: without a receive
	rank, peer    int   // peer: the receiver or the sender of a message
	bytes, tag    int64 // of a message
	durationNS    int64 // of a computation
	startNS       int64 // before which it does not begin
	after, starts []int
	collective    *Collective
	group         string // of a collective: the name of its ranks
	at            string // its place in the file, for errors
}

type opKind int

const (
	opCompute opKind = iota
	opSend
	opReceive
	opCollective
)

// memory limits the memory of the operations and dependencies of a trace.
type memory struct {
	limit, used int64 // bytes; 0: no limit
}

// These are the bytes that an operation and a dependency use, including the nodes and lists that Flows
// creates for them.
const (
	opMemory         = 768
	dependencyMemory = 64
)

// ErrMemory is wrapped by the error for a trace that exceeds its memory limit.
var ErrMemory = errors.New("needs more memory than it may take")

func (m *memory) take(bytes int64) error {
	m.used += bytes
	if m.limit > 0 && m.used > m.limit {
		return fmt.Errorf("the trace %w, %d MiB", ErrMemory, m.limit>>20)
	}
	return nil
}

// add appends an operation.
func (t *Trace) add(o op) error {
	t.ops = append(t.ops, o)
	return t.memory.take(opMemory)
}

// waitFor makes the last operations depend on others. There is a list of ids for each of them.
func (t *Trace) waitFor(lists [][]uint64, byID map[uint64]int, thing string) error {
	for i, ids := range lists {
		o := &t.ops[len(t.ops)-len(lists)+i]
		for _, id := range ids {
			of, known := byID[id]
			if !known {
				return fmt.Errorf("%s waits for %s %d, which the file does not have", o.at, thing, id)
			}
			o.after = append(o.after, of)
		}
	}
	return nil
}

// Flows calls emit for each flow of the trace, after those that the flow depends on, until emit fails or ctx
// ends. Rank i is hosts[i].
//
// A message ends for both its sender and its receiver when it has been delivered. A message of a rank to
// itself is a compute step of no duration. A message without bytes has one byte. Messages are matched by
// sender, receiver and tag, in the order of the trace. The k-th collective of a group is the same one at all
// of its ranks. It returns an error if there are too few hosts, if an operation has no counterpart or one of
// another size, or if operations wait for each other.
//
// Apart from collectives, the number of flows and of their dependencies is linear in those of the operations.
func (t *Trace) Flows(ctx context.Context, hosts []int32, emit func(*Flow) error) error {
	if t.Ranks > len(hosts) {
		return fmt.Errorf("%d ranks, but the topology has %d hosts", t.Ranks, len(hosts))
	}
	p := &player{Trace: t, nodes: make([]node, 2*len(t.ops))}
	p.g = &generator{hosts: hosts, emit: func(f *Flow) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return emit(f)
	}}
	if err := p.match(); err != nil {
		return err
	}
	if err := p.gather(); err != nil {
		return err
	}
	return p.play(ctx)
}

// WriteCSV writes the flows of the trace as a flow file with one service, the job. Rank i is the host with id
// hosts[i]. It returns the number of flows.
func (t *Trace) WriteCSV(ctx context.Context, out io.Writer, job string, hosts []int32) (flows int64,
	err error) {
	w := csv.NewWriter(out)
	err = w.Write([]string{"flow_id", "src", "dst", "size_bytes", "start_ns", "service", "after", "delay_ns"})
	if err != nil {
		return 0, err
	}
	err = t.Flows(ctx, hosts, func(f *Flow) error {
		if len(f.After) == 0 { // a time to compute from the start
			f.StartNS += f.DelayNS
			f.DelayNS = 0
		}
		flows++
		return w.Write([]string{
			strconv.FormatInt(flows-1, 10),
			strconv.Itoa(int(f.Src)),
			strconv.Itoa(int(f.Dst)),
			strconv.FormatInt(f.Bytes, 10),
			strconv.FormatInt(f.StartNS, 10),
			job,
			strings.Trim(fmt.Sprint(f.After), "[]"),
			strconv.FormatInt(f.DelayNS, 10),
		})
	})
	w.Flush()
	return flows, errors.Join(err, w.Error())
}

const maxLineBytes = 1 << 20

// eachLine calls a function for each line of a file. It adds the line number to an error.
func eachLine(in io.Reader, line *int, read func(text string) error) (err error) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLineBytes)
	for *line = 1; err == nil && lines.Scan(); *line++ {
		err = read(lines.Text())
	}
	if err != nil {
		*line--
	} else if err = lines.Err(); err == nil {
		return nil
	}
	return fmt.Errorf("line %d: %w", *line, err)
}
