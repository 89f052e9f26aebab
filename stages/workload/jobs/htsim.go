package jobs

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// ReadHtsim reads a connection matrix of htsim (.cm). It has connections, which start at a time or after a
// trigger, and triggers (oneshot, multishot or barrier), which fire when connections end.
//
// A start time is in ps, with or without decimals, as in htsim. A oneshot or multishot trigger that several
// connections fire is an error, because its first firing cannot be expressed. Key prio is accepted but not
// modeled. Multicast groups and failures are errors. The trace uses at most memoryBytes of memory (0: no
// limit). Errors name the line.
func ReadHtsim(in io.Reader, memoryBytes int64) (*Trace, error) {
	r := &htsimReader{Trace: &Trace{Ranks: -1, memory: memory{limit: memoryBytes}}}
	r.fires = map[int64][]int{}
	r.waits = map[int64][]int{}
	r.triggers = map[int64]int{}
	err := eachLine(in, &r.line, func(text string) error { return r.read(strings.Fields(text)) })
	switch {
	case err != nil:
		return nil, err
	case r.Ranks > MaxRanks:
		return nil, fmt.Errorf("key Nodes says %d, at most %d are supported", r.Ranks, MaxRanks)
	case r.connections != len(r.ops):
		return nil, fmt.Errorf("key Connections says %d, but there are %d", r.connections, len(r.ops))
	case r.nTriggers != len(r.triggers):
		return nil, fmt.Errorf("key Triggers says %d, but there are %d", r.nTriggers, len(r.triggers))
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

// read reads the words of a line.
func (r *htsimReader) read(words []string) (err error) {
	if len(words) == 0 || strings.HasPrefix(words[0], "#") {
		return nil
	}
	count, least := r.count(words[0])
	if count != nil && len(words) == 2 {
		if *count, err = strconv.Atoi(words[1]); err != nil || *count < least || *count > math.MaxInt32 {
			return fmt.Errorf("%s %s is not a number in range", words[0], words[1])
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

// count returns the destination of a number in the header, and its minimum. It returns nil for other words.
func (r *htsimReader) count(word string) (to *int, least int) {
	switch word {
	case "Nodes":
		return &r.Ranks, 1
	case "Connections":
		return &r.connections, 0
	case "Triggers":
		return &r.nTriggers, 0
	}
	return nil, 0
}

// connection reads SRC->DST and its keys.
func (r *htsimReader) connection(pair, words []string) (err error) {
	o := op{kind: opSend, oneSided: true, at: fmt.Sprintf("line %d", r.line)}
	for i, to := range []*int{&o.rank, &o.peer} {
		if *to, err = strconv.Atoi(pair[i+1]); err != nil || *to >= r.Ranks {
			return fmt.Errorf("node %s, want 0 to %d (Nodes)", pair[i+1], r.Ranks-1)
		}
	}
	seen := map[string]bool{}
	for ; len(words) >= 2; words = words[2:] {
		if seen[words[0]] && !strings.HasSuffix(words[0], "_trigger") {
			return fmt.Errorf("key %q comes twice", words[0])
		}
		seen[words[0]] = true
		if err := r.key(&o, words[0], words[1]); err != nil {
			return err
		}
	}
	switch {
	case len(words) > 0:
		return fmt.Errorf("key %q has no value", words[0])
	case !seen["start"] && !seen["trigger"]:
		return fmt.Errorf("%s has neither start nor trigger", pair[0])
	case o.bytes == 0:
		return fmt.Errorf("%s has no size: it would never end", pair[0])
	}
	return r.add(o)
}

// key reads a key of a connection, which becomes the next operation.
func (r *htsimReader) key(o *op, key, value string) (err error) {
	if key == "start" {
		o.startNS, err = parseHtsimStart(value)
		return err
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 {
		return fmt.Errorf("%s %s is not a number", key, value)
	}
	switch next := len(r.ops); key {
	case "size":
		o.bytes = n
	case "trigger":
		r.waits[n] = append(r.waits[n], next)
	case "send_done_trigger", "recv_done_trigger":
		r.fires[n] = append(r.fires[n], next)
	case "id", "prio":
	default:
		return fmt.Errorf("key %q is not supported", key)
	}
	return r.memory.take(dependencyMemory)
}

// parseHtsimStart parses a time in ps, an integer or a decimal number, and rounds it to ns.
func parseHtsimStart(text string) (ns int64, err error) {
	if ps, err := strconv.ParseInt(text, 10, 64); err == nil && ps >= 0 {
		return (ps + 500) / 1000, nil
	}
	ps, err := strconv.ParseFloat(text, 64)
	if err != nil || !(ps >= 0 && ps < math.MaxInt64) {
		return 0, fmt.Errorf("start %s is not a time in ps", text)
	}
	return int64(math.Round(ps / 1000)), nil
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
	_, twice := r.triggers[id]
	if err != nil || wrong != nil || twice || n < 1 {
		return fmt.Errorf("trigger %s: a number is wrong, or the id comes twice", text)
	}
	r.triggers[id] = n
	return nil
}

// connect makes connections wait for the connections that fire their triggers. If many connections wait for
// many others, a compute step of no duration is placed between them, so that the number of dependencies is
// linear in the size of the file.
func (r *htsimReader) connect() error {
	for _, id := range slices.Sorted(maps.Keys(r.waits)) {
		waiting := r.waits[id]
		fires := r.fires[id]
		n, known := r.triggers[id]
		if !known || n != len(fires) {
			return fmt.Errorf("%s waits for trigger %d, which needs %d ends of connections and has %d",
				r.ops[waiting[0]].at, id, n, len(fires))
		}
		if len(fires) > fewFlows && len(waiting) > 1 {
			last := r.ops[fires[len(fires)-1]]
			fires = []int{len(r.ops)}
			if err := r.add(op{kind: opCompute, rank: last.rank, after: r.fires[id], at: last.at}); err != nil {
				return err
			}
		}
		for _, i := range waiting {
			r.ops[i].after = append(r.ops[i].after, fires...)
		}
	}
	return nil
}
