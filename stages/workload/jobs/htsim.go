package jobs

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// ReadHtsim reads a connection matrix of htsim (.cm): connections with a start in ps or after a trigger, and triggers
// (oneshot, multishot or barrier) that the ends of connections fire. A oneshot or multishot trigger that several
// connections fire is an error: its first firing cannot be expressed. prio is read and not modelled; multicast groups
// and failures are an error. Errors name the line.
func ReadHtsim(in io.Reader) (*Trace, error) {
	r := &htsimReader{Trace: &Trace{Ranks: -1}}
	r.fires, r.waits, r.triggers = map[int64][]int{}, map[int64][]int{}, map[int64]int{}
	err := eachLine(in, &r.line, func(text string) error { return r.read(strings.Fields(text)) })
	if err != nil {
		return nil, err
	}
	for _, c := range []struct {
		name     string
		want, is int
	}{{"Connections", r.connections, len(r.ops)}, {"Triggers", r.nTriggers, len(r.triggers)}} {
		if c.want != c.is {
			return nil, fmt.Errorf("%s says %d, but there are %d", c.name, c.want, c.is)
		}
	}
	return r.Trace, r.connect()
}

type htsimReader struct {
	*Trace
	line                   int
	connections, nTriggers int
	fires, waits           map[int64][]int // by trigger: operations
	triggers               map[int64]int   // how many firings each needs
}

var (
	htsimPair    = regexp.MustCompile(`^(\d+)->(\d+)$`)
	htsimTrigger = regexp.MustCompile(`^id (\S+) (?:oneshot|multishot|barrier (?:count )?(\S+))$`)
)

func (r *htsimReader) read(words []string) (err error) {
	if len(words) == 0 || strings.HasPrefix(words[0], "#") {
		return nil
	}
	for name, to := range map[string]*int{"Nodes": &r.Ranks, "Connections": &r.connections, "Triggers": &r.nTriggers} {
		if words[0] != name || len(words) != 2 {
			continue
		}
		if *to, err = strconv.Atoi(words[1]); err != nil || *to < 0 || name == "Nodes" && *to > MaxRanks {
			return fmt.Errorf("%s %s is not a number in range", name, words[1])
		}
		return nil
	}
	switch pair := htsimPair.FindStringSubmatch(words[0]); {
	case pair != nil:
		return r.connection(pair, words[1:])
	case words[0] == "trigger":
		return r.trigger(words[1:])
	}
	return fmt.Errorf("%q is not supported, want Nodes, Connections, Triggers, SRC->DST or trigger", words[0])
}

func (r *htsimReader) connection(pair, words []string) (err error) {
	o := op{kind: opSend, oneSided: true, at: fmt.Sprintf("line %d", r.line)}
	for i, to := range []*int{&o.rank, &o.peer} {
		if *to, err = strconv.Atoi(pair[i+1]); err != nil || *to >= r.Ranks {
			return fmt.Errorf("node %s, want 0 to %d (Nodes)", pair[i+1], r.Ranks-1)
		}
	}
	begins, seen := false, map[string]bool{}
	for ; len(words) >= 2; words = words[2:] {
		if seen[words[0]] && !strings.HasSuffix(words[0], "_trigger") {
			return fmt.Errorf("key %q comes twice", words[0])
		}
		seen[words[0]] = true
		n, err := strconv.ParseInt(words[1], 10, 64)
		if err != nil || n < 0 {
			return fmt.Errorf("%s %s is not a number", words[0], words[1])
		}
		switch i := len(r.ops); words[0] {
		case "start":
			o.startNS, begins = int64(math.Round(float64(n)/1000)), true
		case "size":
			o.bytes = n
		case "trigger":
			r.waits[n], begins = append(r.waits[n], i), true
		case "send_done_trigger", "recv_done_trigger":
			r.fires[n] = append(r.fires[n], i)
		case "id", "prio":
		default:
			return fmt.Errorf("key %q is not supported", words[0])
		}
	}
	switch {
	case len(words) > 0:
		return fmt.Errorf("key %q has no value", words[0])
	case !begins:
		return fmt.Errorf("%s has neither start nor trigger", pair[0])
	case o.bytes == 0:
		return fmt.Errorf("%s has no size: it would never end", pair[0])
	}
	r.ops = append(r.ops, o)
	return nil
}

// trigger reads id N oneshot, multishot, or barrier [count] N.
func (r *htsimReader) trigger(words []string) error {
	text := strings.Join(words, " ")
	m := htsimTrigger.FindStringSubmatch(text)
	if m == nil {
		return fmt.Errorf("trigger %s, want id N oneshot, multishot or barrier N", text)
	}
	id, err := strconv.ParseInt(m[1], 10, 64)
	n, wrong := strconv.Atoi(cmp.Or(m[2], "1"))
	if _, twice := r.triggers[id]; err != nil || wrong != nil || twice || n < 1 {
		return fmt.Errorf("trigger %s: a number is wrong, or the id comes twice", text)
	}
	r.triggers[id] = n
	return nil
}

// connect lets connections wait for those that fire their triggers.
func (r *htsimReader) connect() error {
	for id, ops := range r.waits {
		if n, known := r.triggers[id]; !known || n != len(r.fires[id]) {
			return fmt.Errorf("%s waits for trigger %d, which needs %d ends of connections and has %d", r.ops[ops[0]].at, id, n,
				len(r.fires[id]))
		}
		for _, i := range ops {
			r.ops[i].after = append(r.ops[i].after, r.fires[id]...)
		}
	}
	return nil
}
