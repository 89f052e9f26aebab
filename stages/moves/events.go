package moves

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"parsimon/schema/tree"
	"parsimon/schema/units"
	"parsimon/simkernel"
	"parsimon/simkernel/network"
	"parsimon/simkernel/network/faults"
	"parsimon/stages/topology"
)

// Kinds of events.
const (
	Down  = "down"
	Loss  = "loss"
	Rate  = "rate"
	Delay = "delay"
)

// An Event is a change of a cable in [FromNS, ToNS), in the time of flow starts. It changes all members of a
// LAG alike: a rate is that of each.
type Event struct {
	Cable  [2]int32 `json:"cable"`             // ids of its ends, the lower first
	OneWay int8     `json:"one_way,omitempty"` // 1: only from the lower id, -1: only to it, 0: both
	Kind   string   `json:"kind"`
	// The share of packets lost at random (Loss), or a bandwidth (Rate).
	topology.SpeedOrShare
	BurstNS int64 `json:"burst_ns,omitempty"` // Loss: average length of bursts; 0: no bursts
	DelayNS int64 `json:"delay_ns,omitempty"` // Delay
	FromNS  int64 `json:"from_ns"`
	ToNS    int64 `json:"to_ns,omitempty"` // 0: never ends
}

func (e *Event) check(n *topology.Network) error {
	links := n.LinksBetween(e.Cable[0], e.Cable[1])
	if len(links) == 0 {
		return fmt.Errorf("event %s: no such cable", e.Describe(n))
	}
	lossy := min(e.Share, 1-e.Share) > 0 && (e.BurstNS == 0 || e.BurstNS >= faults.MinBurstNS)
	if !slices.Contains([]string{Down, Loss, Rate, Delay}, e.Kind) || e.Kind == Loss && !lossy || e.FromNS < 0 ||
		max(e.FromNS, e.ToNS) > math.MaxInt64/2 || e.BurstNS > network.MaxNS || e.ToNS != 0 && e.ToNS <= e.FromNS {
		return fmt.Errorf("event %s: no such kind, share, burst or time", e.Describe(n))
	}
	l := n.Links[links[0]]
	for _, member := range links {
		l.BandwidthBps = min(l.BandwidthBps, n.Links[member].BandwidthBps)
		l.DelayNS = max(l.DelayNS, n.Links[member].DelayNS)
	}
	if e.Kind == Rate && (e.BandwidthBps < simkernel.MinBps || e.BandwidthBps > l.BandwidthBps) {
		return fmt.Errorf("event %s: must be 10 kbps to the cable's %s", e.Describe(n),
			topology.FormatBps(l.BandwidthBps))
	}
	if e.Kind == Delay && (e.DelayNS < l.DelayNS || e.DelayNS > network.MaxDelayNS) {
		return fmt.Errorf("event %s: must be the cable's %s to a minute", e.Describe(n), units.Time(l.DelayNS))
	}
	return nil
}

// instead suggests the event's times relative to the first flow, if the trace has dates and the event has
// none.
func (e *Event) instead(n *topology.Network, firstNS int64) string {
	if firstNS <= units.CenturyNS || max(e.FromNS, e.ToNS) >= units.CenturyNS {
		return ""
	}
	later := *e
	later.FromNS += firstNS
	if e.ToNS != 0 {
		later.ToNS += firstNS
	}
	return fmt.Sprintf("; from the first flow on, it is '%s'", later.Describe(n))
}

// Describe returns the event as text that ParseEvent reads.
func (e *Event) Describe(n *topology.Network) string {
	text := n.Ends(e.Cable[0], e.Cable[1])
	switch e.OneWay {
	case 1:
		text = n.Name(e.Cable[0]) + "->" + n.Name(e.Cable[1])
	case -1:
		text = n.Name(e.Cable[1]) + "->" + n.Name(e.Cable[0])
	}
	text += " " + e.Kind
	switch e.Kind {
	case Loss:
		text += fmt.Sprintf(" %v", e.Share)
		if e.BurstNS > 0 {
			text += " burst " + units.Time(e.BurstNS)
		}
	case Rate:
		text += " " + topology.FormatBps(e.BandwidthBps)
	case Delay:
		text += " " + units.Time(e.DelayNS)
	}
	if e.FromNS > 0 || e.ToNS > 0 {
		text += " " + units.Time(e.FromNS) + ".."
	}
	if e.ToNS > 0 {
		text += units.Time(e.ToNS)
	}
	return text
}

// Timed reports whether an event begins or ends at a given time.
func (m *Moves) Timed() bool {
	return slices.ContainsFunc(m.Events, func(e Event) bool { return e.FromNS > 0 || e.ToNS > 0 })
}

func (m *Moves) addEvents(n *topology.Network, text string) error {
	where, e, err := ParseEvent(text)
	if err != nil {
		return err
	}
	cables := make([][2]int32, 1)
	from, to, oneWay := strings.Cut(where, "->")
	if oneWay {
		ends := strings.TrimSpace(from) + ":" + strings.TrimSpace(to)
		if cables[0][0], cables[0][1], err = n.Cable(ends); err == nil {
			e.OneWay = 1
			src, _, _ := n.Pair(ends)
			if src != cables[0][0] {
				e.OneWay = -1
			}
		}
	} else {
		cables, err = n.Select(where)
	}
	rate := e.SpeedOrShare
	for _, e.Cable = range cables {
		links := n.LinksBetween(e.Cable[0], e.Cable[1])
		if e.Kind == Rate {
			e.SpeedOrShare = topology.SpeedOrShare{BandwidthBps: rate.Of(n.Links[links[0]].BandwidthBps)}
		}
		if err == nil {
			err = m.addEvent(n, e)
		}
	}
	return err
}

// addEvent inserts an event into the others, which are sorted and do not overlap.
func (m *Moves) addEvent(n *topology.Network, e Event) error {
	if err := e.check(n); err != nil {
		return err
	}
	for i := range m.Events {
		o := &m.Events[i]
		if o.Cable == e.Cable && o.Kind == e.Kind && o.OneWay*e.OneWay >= 0 && (o.ToNS == 0 || o.ToNS > e.FromNS) &&
			(e.ToNS == 0 || e.ToNS > o.FromNS) {
			return fmt.Errorf("events of one kind overlap on a cable: %s and %s", o.Describe(n), e.Describe(n))
		}
		if o.Cable == e.Cable && (o.Kind == Delay && e.BurstNS > 0 || e.Kind == Delay && o.BurstNS > 0) {
			return fmt.Errorf("bursts of losses are drawn in the order of packets, which a delay changes: %s and %s",
				o.Describe(n), e.Describe(n))
		}
	}
	at, _ := slices.BinarySearchFunc(m.Events, e, func(a, b Event) int {
		return cmp.Or(slices.Compare(a.Cable[:], b.Cable[:]), cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(a.FromNS, b.FromNS), cmp.Compare(a.OneWay, b.OneWay))
	})
	m.Events = slices.Insert(m.Events, at, e)
	return nil
}

// CheckSpan returns an error for the first event that ends before the first flow starts or begins after all
// flows have certainly finished. latestEndNS is the time at which they have certainly finished, or
// math.MaxInt64 if it is not known. An event after the last start may still affect flows.
func (m *Moves) CheckSpan(n *topology.Network, firstNS, lastStartNS, latestEndNS int64) error {
	for i := range m.Events {
		e := &m.Events[i]
		otherUnit := e.FromNS > 0 && firstNS > units.CenturyNS && e.FromNS < firstNS/Aeons
		if e.FromNS > latestEndNS || e.ToNS != 0 && e.ToNS <= firstNS || otherUnit {
			return fmt.Errorf("event %s is outside the trace, whose flows start from %s to %s%s", e.Describe(n),
				units.Time(firstNS), units.Time(lastStartNS), e.instead(n, firstNS))
		}
	}
	return nil
}

// LateEvents returns a remark for each event that begins after the last flow has finished. Such an event has
// no effect.
func (m *Moves) LateEvents(n *topology.Network, lastEndNS int64) (remarks []string) {
	if m == nil {
		return nil
	}
	for i := range m.Events {
		e := &m.Events[i]
		if e.FromNS > lastEndNS {
			remarks = append(remarks, fmt.Sprintf("event %s changes nothing: the last flow has finished at %s",
				e.Describe(n), units.Time(lastEndNS)))
		}
	}
	return remarks
}

// Aeons is a limit for ratios of times. If the first time of a trace is more than Aeons times another time,
// the two are assumed to have different units. Successive units, such as ns and µs, differ by a factor of
// 1000.
const Aeons = 500

// ParseEvent parses CABLES down|loss SHARE [burst TIME]|rate SPEED|delay TIME [FROM..[TO]]. CABLES is a
// selector, or A->B for one direction. FROM and TO are in the time of flow starts: a duration such as 10ms, a
// number of ns, or a date such as 2026-01-31T09:00:00Z.
func ParseEvent(text string) (cable string, e Event, err error) {
	words := strings.Fields(text)
	at := slices.IndexFunc(words,
		func(w string) bool { return slices.Contains([]string{Down, Loss, Rate, Delay}, w) })
	if at < 1 {
		return "", e, errors.New("want CABLES down|loss SHARE [burst TIME]|rate SPEED|delay TIME [FROM..[TO]], " +
			"such as 'leaf1:spine3 down 10ms..50ms'")
	}
	cable = strings.Join(words[:at], " ")
	e.Kind = words[at]
	words = words[at+1:]
	if e.Kind != Down {
		if len(words) == 0 {
			return "", e, fmt.Errorf("event %s of cable %s has no value", e.Kind, cable)
		}
		switch e.Kind {
		case Loss:
			if e.Share, err = units.ParseShare(words[0]); err == nil && !(e.Share > 0 && e.Share < 1) {
				err = errors.New("a share of lost packets must be above 0 and below 1")
			}
		case Rate:
			e.SpeedOrShare, err = topology.ParseSpeedOrShare(words[0])
		default:
			e.DelayNS, err = units.Parse(words[0], units.Duration)
		}
		words = words[1:]
	}
	if err == nil && e.Kind == Loss && len(words) > 1 && words[0] == "burst" {
		e.BurstNS, err = units.Parse(words[1], units.Duration)
		if err == nil && (e.BurstNS < faults.MinBurstNS || e.BurstNS > network.MaxNS) {
			err = fmt.Errorf("%q: bursts of losses must last 1µs to 13 days on average", words[1])
		}
		words = words[2:]
	}
	switch {
	case err != nil:
		return "", e, err
	case len(words) > 1:
		return "", e, fmt.Errorf("%q is too much: want FROM..TO", words[1:])
	case len(words) == 1:
		e.FromNS, e.ToNS, err = parseSpan(words[0])
	case e.Kind == Down:
		err = fmt.Errorf("want times FROM..TO for cable %s (--fail takes a cable down permanently)", cable)
	}
	return cable, e, err
}

func parseSpan(text string) (fromNS, toNS int64, err error) {
	from, to, ok := strings.Cut(text, "..")
	if !ok {
		return 0, 0, fmt.Errorf("%q: want times FROM..TO or FROM.., such as 10ms..50ms", text)
	}
	if from != "" {
		fromNS, err = ParseTime(from)
	}
	if to != "" && err == nil {
		if toNS, err = ParseTime(to); err == nil && toNS <= fromNS {
			err = fmt.Errorf("%q ends before it begins", text)
		}
	}
	return fromNS, toNS, err
}

// ParseTime parses a time of flow starts: a number of ns, a duration, or a date as in units.ParseDate.
func ParseTime(text string) (int64, error) {
	if ns, err := strconv.ParseInt(text, 10, 64); err == nil && ns >= 0 {
		return ns, nil
	}
	if ns, err := units.ParseDate(text); err == nil {
		return ns, nil
	}
	ns, err := units.Parse(text, units.Duration)
	switch {
	case err != nil:
		err = fmt.Errorf("%q is not a time: want one such as 2026-01-31T09:00:00Z, a duration such as 10ms, "+
			"or ns", text)
	case ns < 0:
		err = fmt.Errorf("%q is before the trace", text)
	}
	return ns, err
}

// ReadCSV reads a file of events as monitoring systems export them. Its columns are cable, event, value
// (empty for down), from and to. Empty times are the beginning and the end of the trace.
func ReadCSV(file string) (events []string, err error) {
	data, err := topology.ReadFile(file)
	if err != nil {
		return nil, err
	}
	err = tree.CSV(bytes.NewReader(data), []string{"cable", "event", "value?", "from?", "to?"},
		func(_ int, of []string) error {
			text := strings.Join(of[:3], " ")
			if of[3]+of[4] != "" {
				text += " " + of[3] + ".." + of[4]
			}
			events = append(events, text)
			_, _, err := ParseEvent(text)
			return err
		})
	if err == nil && events == nil {
		err = errors.New("no event")
	}
	if err != nil {
		return nil, fmt.Errorf("%s, %w", file, err)
	}
	return events, nil
}
