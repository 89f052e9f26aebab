package jobs

import (
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// ReadGOAL reads a schedule in the text format of the group operation assembly language (Hoefler, Siebert and
// Lumsdaine, ICPP 2009), as LogGOPSim's txt2bin reads it. The unit of calc is ns. Options cpu and nic are
// accepted but not modeled: operations that do not wait for each other run at the same time. A receive may be
// larger than its message. The message then has the size of the send. The trace uses at most memoryBytes of
// memory (0: no limit). Errors name the line.
func ReadGOAL(in io.Reader, memoryBytes int64) (*Trace, error) {
	r := &goalReader{Trace: &Trace{Ranks: -1, memory: memory{limit: memoryBytes}}, rank: -1}
	err := eachLine(in, &r.line, func(text string) error {
		if r.comment {
			text = "/*" + text
		}
		text, _, r.comment = strings.Cut(goalComment.ReplaceAllString(text, " "), "/*")
		return r.read(strings.Fields(goalTokens.ReplaceAllString(text, " $0 ")))
	})
	switch {
	case err != nil:
		return nil, err
	case r.rank >= 0:
		return nil, fmt.Errorf("rank %d has no }", r.rank)
	case r.Ranks < 0:
		return nil, fmt.Errorf("no num_ranks")
	}
	return r.Trace, nil
}

var (
	goalComment = regexp.MustCompile(`/\*.*?\*/|//.*`)
	goalTokens  = regexp.MustCompile(`[:{}]`)
	goalOp      = regexp.MustCompile(
		`^(?:(\w+) : )?(?:calc (\d+)|send (\d+) ?b to (\d+)|recv (\d+) ?b from (\d+))` +
			`(?: tag (\d+))?(?: cpu \d+)?(?: nic \d+)?$`)
)

type goalReader struct {
	*Trace
	line    int
	comment bool
	rank    int            // -1: outside of a rank
	labels  map[string]int // of the rank
	seen    map[int]bool   // ranks
}

// read reads the words of a line.
func (r *goalReader) read(words []string) error {
	text := strings.Join(words, " ")
	switch {
	case text == "":
		return nil
	case r.rank >= 0 && text == "}":
		r.rank = -1
		return nil
	case r.rank >= 0 && len(words) == 3 && (words[1] == "requires" || words[1] == "irequires"):
		return r.dependency(words)
	case r.rank >= 0:
		return r.operation(text)
	case len(words) == 2 && words[0] == "num_ranks" && r.Ranks < 0:
		n, err := strconv.Atoi(words[1])
		if err != nil || n < 1 || n > MaxRanks {
			return fmt.Errorf("num_ranks %s, want 1 to %d", words[1], MaxRanks)
		}
		r.Ranks = n
		r.seen = map[int]bool{}
		return nil
	case len(words) == 3 && words[0] == "rank" && words[2] == "{":
		return r.begin(words[1])
	}
	return fmt.Errorf("%q, want num_ranks N or rank N {", text)
}

// begin starts the operations of a rank.
func (r *goalReader) begin(rank string) error {
	n, err := r.rankOf(rank)
	if err != nil {
		return err
	}
	if r.seen[n] {
		return fmt.Errorf("rank %d comes twice", n)
	}
	r.rank = n
	r.seen[n] = true
	r.labels = map[string]int{}
	return nil
}

// dependency reads A requires B, or A irequires B.
func (r *goalReader) dependency(words []string) error {
	of, known := r.labels[words[0]]
	on, both := r.labels[words[2]]
	if !known || !both {
		return fmt.Errorf("%s: rank %d has no such label before this line", strings.Join(words, " "), r.rank)
	}
	o := &r.ops[of]
	if words[1] == "requires" {
		o.after = append(o.after, on)
	} else {
		o.starts = append(o.starts, on)
	}
	return r.memory.take(dependencyMemory)
}

// operation reads calc, send or recv.
func (r *goalReader) operation(text string) error {
	m := goalOp.FindStringSubmatch(text)
	if m == nil {
		if strings.Contains(text, "-1") {
			return fmt.Errorf("%q: receiving from any rank or with any tag is not supported", text)
		}
		return fmt.Errorf("%q, want calc NS, send Nb to RANK, recv Nb from RANK (tag N), A requires B, or }", text)
	}
	o := op{rank: r.rank, at: fmt.Sprintf("line %d", r.line)}
	var err error
	number := func(group int, to *int64) bool {
		if m[group] == "" || err != nil {
			return false
		}
		if *to, err = strconv.ParseInt(m[group], 10, 64); err != nil {
			err = fmt.Errorf("%q: %s is too large", text, m[group])
		}
		return true
	}
	number(2, &o.durationNS)
	number(7, &o.tag)
	if number(3, &o.bytes) {
		o.kind = opSend
	}
	if number(5, &o.bytes) {
		o.kind = opReceive
	}
	if err == nil && o.kind != opCompute {
		o.peer, err = r.rankOf(m[4] + m[6])
	}
	if err != nil {
		return err
	}
	label := m[1]
	if label != "" {
		if _, twice := r.labels[label]; twice {
			return fmt.Errorf("label %s comes twice in rank %d", label, r.rank)
		}
		r.labels[label] = len(r.ops)
	}
	return r.add(o)
}

func (r *goalReader) rankOf(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n >= r.Ranks {
		return 0, fmt.Errorf("rank %s, want 0 to %d (num_ranks)", text, r.Ranks-1)
	}
	return n, nil
}
