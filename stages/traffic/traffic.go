// Package traffic makes flows of the connections of a flow log.
//
// A record of a flow log says how many bytes a connection sent between two times. It does not say when
// within that time, nor in how many transfers. This package divides long connections into flows that offer
// every link, in every interval of the log, the bytes that the log has there.
//
//	workload_flows, workload_intervals ─ Divide ─┬─► flows that stay whole ──────┐
//	                                             └─► intervals of the others ─► Write ─► flows
//
// Divide uses DuckDB and spills to disk. Write is a stream: its memory grows with the number of intervals
// that overlap at a time.
//
// A connection with one interval of at most wholeNS stays whole: it is one flow that is ready at its start.
// So does one with at most wholeIntervals intervals within wholeNS and at most wholeBytes. Every other
// connection has one of three models (Kind). A Rule states it for a service. Without a rule, the log decides:
//
//	packets of at most ackPacketBytes on average                                        Paced
//	packets of at least smallPacketBytes, or of unknown size, and at least bulkShare of
//	the slower one of the links of its hosts, on average over its intervals             Bulk
//	otherwise                                                                           Messages
//
// datasets/MODEL.md states the models and their sources.
package traffic

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"parsimon/schema/units"
	"parsimon/stages/workload"
)

// A Kind is a model of what a connection sends.
type Kind int16

// The models. Values are part of files that Divide writes.
const (
	// Messages sends the bytes of an interval as messages. They begin at random times within the interval, as
	// a Poisson process does, and each one is a flow with a slowdown.
	Messages Kind = iota
	// Paced sends the bytes of an interval at a constant rate, in pieces of pieceBytes. The pieces are
	// background flows.
	Paced
	// Bulk sends the bytes of an interval as one flow, which is ready when the interval begins.
	Bulk
)

var kindNames = []string{"messages", "paced", "bulk"}

// String returns the name of the model in rules.
func (k Kind) String() string { return kindNames[k] }

// Limits of connections that stay whole. See Whole.
const (
	wholeIntervals = 2
	wholeNS        = int64(120e9)
	// wholeBytes is the size of a message of which nothing is known. A larger connection does not stay whole,
	// because the bytes of its second interval would be offered in the first.
	wholeBytes = otherSizeBytes
)

// Whole returns the SQL of a condition on the intervals of a connection, in a query that groups table
// workload_intervals by connection: it is true for connections that stay whole.
func Whole() string {
	return fmt.Sprintf("count(*) <= %d AND max(end_ns)::HUGEINT - min(start_ns) <= %d AND "+
		"(count(*) = 1 OR sum(bytes::HUGEINT) <= %d)", wholeIntervals, wholeNS, wholeBytes)
}

// Limits of the choice of a model. Package traffic describes them.
const (
	ackPacketBytes   = 80 // TCP acknowledgements with options, over IPv4 or IPv6
	smallPacketBytes = 700
	bulkShare        = 0.25
)

// pieceBytes is the size of the pieces of paced traffic. A sender sends this number of bytes at once at line
// rate.
const pieceBytes = int64(4000)

// maxMessageBytes bounds the message size in rules.
const maxMessageBytes = int64(1) << 40

// maxBurst bounds the bursts of rules.
const maxBurst = 1_000_000

// burstKey begins the burst of a rule, and closedKey is its end if messages wait for others.
const (
	burstKey  = "burst="
	closedKey = "closed"
)

// RuleForms are the forms of rules, for errors.
const RuleForms = "messages, messages:SIZE, messages:SIZE:burst=N, messages:SIZE:closed, paced or bulk"

// A Rule is the model of the connections of a service.
type Rule struct {
	Kind Kind
	// Sizes are those of Messages. If it is nil, DefaultSize applies.
	Sizes *workload.SizeCDF
	// Burst is the number of messages of a connection that begin at the same time. 0 is 1.
	Burst int64
	// Closed is set if a connection has at most Burst messages at a time: each waits for the delivery of an
	// earlier one.
	Closed bool
	// Text is the rule as ParseRule reads it, with sizes in bytes.
	Text string
}

// Rules are rules by service. OtherServices is the key of the rule of all other services.
type Rules map[string]Rule

// OtherServices is the key of Rules for services without a rule.
const OtherServices = workload.OtherServices

// ParseRule reads "messages" or "messages:SIZE", each with an optional ":burst=N" and an optional ":closed"
// at its end, "paced" or "bulk". If SIZE begins with a letter, named returns the distribution of that name.
func ParseRule(text string, named func(name string) (*workload.SizeCDF, error)) (r Rule, err error) {
	parts := strings.Split(text, ":")
	r.Kind = Kind(slices.Index(kindNames, parts[0]))
	if r.Kind < 0 || len(parts) > 1 && r.Kind != Messages {
		return r, fmt.Errorf("is %q, want %s", text, RuleForms)
	}
	canonical := parts[:1]
	rest := parts[1:]
	if len(rest) > 0 && rest[len(rest)-1] == closedKey {
		r.Closed = true
		rest = rest[:len(rest)-1]
	}
	if len(rest) > 0 && !strings.HasPrefix(rest[0], burstKey) {
		var size string
		r.Sizes, size, err = parseSize(rest[0], named)
		if err != nil {
			return r, err
		}
		canonical = append(canonical, size)
		rest = rest[1:]
	}
	if len(rest) > 0 {
		burst, stated := strings.CutPrefix(rest[0], burstKey)
		if !stated || len(rest) > 1 {
			return r, fmt.Errorf("is %q, want %s", text, RuleForms)
		}
		r.Burst, err = strconv.ParseInt(burst, 10, 64)
		if err != nil || r.Burst < 1 || r.Burst > maxBurst {
			return r, fmt.Errorf("burst %q: want a number of messages, from 1 to %d", burst, maxBurst)
		}
	}
	r.Text = strings.Join(canonical, ":") + r.ending()
	return r, nil
}

// CutBurst cuts the burst off the end of a rule, or of a text that ends with one. The burst is empty if none
// is stated.
func CutBurst(text string) (before, burst string) {
	at := strings.LastIndex(text, ":"+burstKey)
	if at < 0 {
		return text, ""
	}
	return text[:at], text[at:]
}

// ending is the end of a rule that states how messages begin. It is empty for single messages at independent
// times.
func (r *Rule) ending() (text string) {
	if r.Burst > 1 {
		text = fmt.Sprintf(":%s%d", burstKey, r.Burst)
	}
	if r.Closed {
		text += ":" + closedKey
	}
	return text
}

// Canonical returns the rule as a text that identifies the sizes of messages by digest instead of by name.
func (r *Rule) Canonical(digest func(*workload.SizeCDF) string) string {
	if r.Sizes == nil {
		return r.Text
	}
	return r.Kind.String() + ":" + digest(r.Sizes) + r.ending()
}

// FactoredSize returns a message size times a factor, to the byte.
func FactoredSize(bytes int64, factor float64) int64 {
	return max(1, int64(math.Round(factor*float64(bytes))))
}

// parseSize reads a size of messages. It returns the size as it is in Rule.Text, too.
func parseSize(text string, named func(name string) (*workload.SizeCDF, error)) (
	sizes *workload.SizeCDF, canonical string, err error,
) {
	if text == "" {
		return nil, "", errors.New("the size of messages is empty")
	}
	if text[0] < '0' || text[0] > '9' {
		sizes, err = named(text)
		return sizes, text, err
	}
	bytes, err := units.Parse(text, units.Bytes)
	if err == nil && (bytes < 1 || bytes > maxMessageBytes) {
		err = errors.New("must be 1 byte to 1 TiB")
	}
	if err != nil {
		return nil, "", fmt.Errorf("size of messages %q: %w", text, err)
	}
	return fixedSize(bytes), strconv.FormatInt(bytes, 10), nil
}

// fixedSize returns the distribution of messages that all have one size.
func fixedSize(bytes int64) *workload.SizeCDF {
	c, err := workload.NewSizeCDF([]workload.SizePoint{{Bytes: bytes, Percent: 100}})
	if err != nil {
		panic("traffic: " + err.Error()) // sizes are within its limits
	}
	return c
}

// of returns the rule of a service, if there is one.
func (r Rules) of(service string) (Rule, bool) {
	rule, ok := r[service]
	if !ok {
		rule, ok = r[OtherServices]
	}
	return rule, ok
}

// Assumes reports whether the message size of a service is assumed, because no rule states it.
func (r Rules) Assumes(service string) bool {
	rule, stated := r.of(service)
	return !stated || rule.Kind == Messages && rule.Sizes == nil
}

// Waits reports whether messages may wait for others.
func (r Rules) Waits() bool {
	for _, rule := range r {
		if rule.Closed {
			return true
		}
	}
	return false
}

// burst returns the number of messages of a service that begin at the same time.
func (r Rules) burst(service string) int64 {
	rule, _ := r.of(service)
	return max(1, rule.Burst)
}

// defaultSizes are message sizes of services whose names have one of the words, in lower case. MODEL.md has
// the sources.
var defaultSizes = []struct {
	words []string
	bytes int64
}{
	{[]string{"hdfs", "hadoop", "storage", "nfs", "iscsi", "ceph", "backup", "replication"}, 64_000},
	{[]string{"kafka", "broker", "pulsar"}, 16_000},
}

// otherSizeBytes is the message size of services that defaultSizes does not have. Half of the RPCs within
// Google are smaller than 1.5 KB and 1% are larger than 196 KB; this is about the geometric mean.
const otherSizeBytes = int64(16_000)

// DefaultSize returns the message size, in bytes, of a service without a rule that states it, and whether the
// name of the service determines it.
func DefaultSize(service string) (bytes int64, known bool) {
	name := strings.ToLower(service)
	for _, d := range defaultSizes {
		for _, word := range d.words {
			if strings.Contains(name, word) {
				return d.bytes, true
			}
		}
	}
	return otherSizeBytes, false
}
