package jobs

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// ReadGOAL reads a schedule in the text form of the group operation assembly language (Hoefler, Siebert and Lumsdaine,
// ICPP 2009), as LogGOPSim's txt2bin takes it. calc is in ns. cpu and nic are read and not modelled: what does not wait
// runs at the same time. Errors name the line.
func ReadGOAL(in io.Reader) (*Trace, error) {
	r := &goalReader{Trace: &Trace{Ranks: -1}, rank: -1}
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
	goalOp      = regexp.MustCompile(`^(?:(\w+) : )?(?:calc (\d+)|send (\d+) ?b to (\d+)|recv (\d+) ?b from (\d+))` +
		`(?: tag (\d+))?(?: cpu \d+)?(?: nic \d+)?$`)
)

// maxLineBytes is the longest line of a trace.
const maxLineBytes = 1 << 20

// eachLine reads the lines of a file, counts them, and names the one of an error.
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

type goalReader struct {
	*Trace
	line    int
	comment bool
	rank    int            // -1: outside of a rank
	labels  map[string]int // of the rank
	seen    map[int]bool   // ranks
}

func (r *goalReader) read(words []string) error {
	text := strings.Join(words, " ")
	switch {
	case text == "":
	case r.rank < 0 && len(words) == 2 && words[0] == "num_ranks" && r.Ranks < 0:
		n, err := strconv.Atoi(words[1])
		if err != nil || n < 1 || n > MaxRanks {
			return fmt.Errorf("num_ranks %s, want 1 to %d", words[1], MaxRanks)
		}
		r.Ranks, r.seen = n, map[int]bool{}
	case r.rank < 0 && len(words) == 3 && words[0] == "rank" && words[2] == "{":
		n, err := r.rankOf(words[1])
		if err != nil {
			return err
		}
		if r.seen[n] {
			return fmt.Errorf("rank %d comes twice", n)
		}
		r.rank, r.seen[n], r.labels = n, true, map[string]int{}
	case r.rank >= 0 && text == "}":
		r.rank = -1
	case r.rank >= 0 && len(words) == 3 && (words[1] == "requires" || words[1] == "irequires"):
		op, known := r.labels[words[0]]
		of, both := r.labels[words[2]]
		if !known || !both {
			return fmt.Errorf("%s: rank %d has no such label before this line", text, r.rank)
		}
		if words[1] == "requires" {
			r.ops[op].after = append(r.ops[op].after, of)
		} else {
			r.ops[op].starts = append(r.ops[op].starts, of)
		}
	case r.rank >= 0:
		return r.operation(text)
	default:
		return fmt.Errorf("%q, want num_ranks N or rank N {", text)
	}
	return nil
}

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
	for _, x := range []struct {
		text string
		kind opKind
		to   *int64
	}{{m[2], opCompute, &o.durationNS}, {m[3], opSend, &o.bytes}, {m[5], opReceive, &o.bytes}, {m[7], -1, &o.tag}} {
		if x.text == "" {
			continue
		}
		if *x.to, err = strconv.ParseInt(x.text, 10, 64); err != nil {
			return fmt.Errorf("%q: %s is too large", text, x.text)
		}
		if x.kind >= 0 {
			o.kind = x.kind
		}
	}
	if o.kind != opCompute {
		if o.peer, err = r.rankOf(m[4] + m[6]); err != nil {
			return err
		}
	}
	if m[1] != "" {
		if _, twice := r.labels[m[1]]; twice {
			return fmt.Errorf("label %s comes twice in rank %d", m[1], r.rank)
		}
		r.labels[m[1]] = len(r.ops)
	}
	r.ops = append(r.ops, o)
	return nil
}

func (r *goalReader) rankOf(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n >= r.Ranks {
		return 0, fmt.Errorf("rank %s, want 0 to %d (num_ranks)", text, r.Ranks-1)
	}
	return n, nil
}
