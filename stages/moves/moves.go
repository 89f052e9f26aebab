// Package moves is about paths that move while flows run: how switches choose among links, and cables that go down,
// lose packets or have another bandwidth for a time.
//
//	scenario file, flags ─► Text ─► Moves (part of the scenario's id) ─┬─► weights, hash, routes ─► topology.Router
//	                                                                   └─► Routes, Engine ─► network.Forward
//
// Balances ecmp and wcmp, and routes of files, give each flow one path; every estimator has them. All else exists in
// the whole network only.
package moves

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"parsimon/schema/names"
	"parsimon/schema/units"
	"parsimon/simkernel"
	"parsimon/simkernel/network"
	"parsimon/stages/topology"
)

// The balances, by name.
const (
	ECMP    = "ecmp" // the default
	WCMP    = "wcmp" // ECMP by weight
	flowlet = "flowlet"
	conga   = "conga"
)

var balances = map[string]network.Balance{ECMP: network.ECMP, WCMP: network.ECMP, flowlet: network.Flowlet,
	"spray": network.Spray, "spray-random": network.Random, "adaptive": network.Adaptive, "plb": network.PLB,
	conga: network.CONGA}

// Balances describes the choices for help texts.
const Balances = "ecmp, wcmp (a flow's path is chosen by bandwidth or --weight), flowlet (a path for each burst), " +
	"spray (packets take links in turn), spray-random (at random), adaptive (each packet takes the shortest queue), plb (senders choose another path " +
	"after congestion) or conga (each burst takes the least congested path)"

var hashes = map[string]topology.Hash{"flow": {}, "addresses": {Addresses: true}, "polarized": {Polarized: true},
	"addresses,polarized": {Addresses: true, Polarized: true}}

// InOrder are receivers that drop packets which arrive out of order, as network cards with go-back-N do; anyOrder is
// the default of balances that reorder.
const (
	InOrder  = "in-order"
	anyOrder = "any-order"
)

// ParseReceivers returns a text that names receivers.
func ParseReceivers(text string) (string, error) {
	if text != InOrder && text != anyOrder {
		return "", errors.New("no receivers: want in-order or any-order")
	}
	return text, nil
}

// ParseHash returns a text that names a hash.
func ParseHash(text string) (string, error) {
	if _, known := hashes[text]; !known {
		return "", errors.New("no hash: want flow, addresses, polarized or addresses,polarized")
	}
	return text, nil
}

type rule struct{ which, balance string } // which: a kind of switch (tor) or a pattern of names (leaf*)

func (r rule) fits(v topology.Node) bool {
	return v.Kind != topology.KindHost && (v.Kind == r.which || topology.MatchPattern(r.which, v.Name))
}

// parseRules reads one of Balances, a rule without switches, or SWITCHES=BALANCE,... of those that single switches can
// have.
func parseRules(text string) (rules []rule, err error) {
	for part := range strings.SplitSeq(text, ",") {
		which, balance, at := strings.Cut(part, "=")
		if !at {
			which, balance = "", text
		}
		if of, known := balances[balance]; !known || at && of >= network.PLB {
			return nil, fmt.Errorf("no balance: want %s; or SWITCHES=BALANCE,..., such as tor=flowlet, with one of the first six",
				Balances)
		}
		rules = append(rules, rule{which, balance})
	}
	return rules, nil
}

// ParseBalance returns a text that is one of Balances, or SWITCHES=BALANCE,... of those that single switches can have.
func ParseBalance(text string) (string, error) {
	_, err := parseRules(text)
	return text, err
}

// setBalance sets the balance of all switches, or of those that the rules of a text name, the first that fits.
func (m *Moves) setBalance(n *topology.Network, text string) error {
	rules, err := parseRules(text)
	if err != nil {
		return err
	}
	m.Balance, m.At, m.GapNS, m.Weights, m.Receivers = "", nil, 0, nil, ""
	if rules[0].balance == text { // of all switches
		m.Balance = strings.TrimPrefix(text, ECMP)
		return nil
	}
	for _, r := range rules {
		if !slices.ContainsFunc(n.Nodes, r.fits) {
			return fmt.Errorf("no switch is of kind %q or has such a name", r.which)
		}
	}
	m.At = map[string][]int32{}
	for _, v := range n.Nodes {
		if i := slices.IndexFunc(rules, func(r rule) bool { return r.fits(v) }); i >= 0 && rules[i].balance != ECMP {
			m.At[rules[i].balance] = append(m.At[rules[i].balance], v.ID)
		}
	}
	if len(m.At) == 0 {
		m.At = nil
	}
	return nil
}

func (m *Moves) has(balance string) bool { return m.Balance == balance || m.At[balance] != nil }

// Configure gives a router the weights, the hash and the routes of files.
func (m *Moves) Configure(r *topology.Router) error {
	if m == nil {
		return nil
	}
	r.SetWeights(m.linkWeights(r.Net))
	r.Hash = hashes[m.Hash]
	return r.SetRoutes(m.Routes)
}

// defaultGapNS begins a flowlet: three round trips of the paper's networks. (CONGA, SIGCOMM'14, has 500 µs for slower
// ones.)
const defaultGapNS = 50_000

// Moves are those of a scenario, with all defaults, in one form only. nil: each flow has one path, by ECMP.
type Moves struct {
	Balance    string             `json:"balance,omitempty"`    // empty: ecmp
	At         map[string][]int32 `json:"balance_at,omitempty"` // in place of Balance: switches by it; others have ecmp
	Routes     *topology.FIB      `json:"routes,omitempty"`     // of files; nil: shortest paths
	GapNS      int64              `json:"flowlet_gap_ns,omitempty"`
	Hash       string             `json:"hash,omitempty"`        // as of ParseHash; empty: by flow and switch
	ConvergeNS int64              `json:"converge_ns,omitempty"` // from an event "down", or its end, to routes that know
	RepairNS   int64              `json:"repair_ns,omitempty"`   // the same of the ends of the cable; 0: ConvergeNS
	Weights    [][3]int64         `json:"weights,omitempty"`     // ends, bps: of cables with another than their bandwidth
	Events     []Event            `json:"events,omitempty"`      // by cable, kind and time
	Receivers  string             `json:"receivers,omitempty"`   // InOrder; empty: any order
}

// Kinds of events.
const (
	Down  = "down"
	Loss  = "loss"
	Rate  = "rate"
	Delay = "delay"
)

// An Event is what happens to a cable in [FromNS, ToNS), in the time of flow starts.
type Event struct {
	Cable  [2]int32 `json:"cable"`             // ids of its ends, the lower first
	OneWay int8     `json:"one_way,omitempty"` // 1: to the link from the lower id only, -1: to the other; 0: to both
	Kind   string   `json:"kind"`
	// Loss: the share of the packets, by chance. Rate: a bandwidth.
	topology.SpeedOrShare
	BurstNS int64 `json:"burst_ns,omitempty"` // Loss: mean length of bursts; 0: each packet by itself
	DelayNS int64 `json:"delay_ns,omitempty"` // Delay
	FromNS  int64 `json:"from_ns"`
	ToNS    int64 `json:"to_ns,omitempty"` // 0: for ever
}

// Whole reports whether only a simulation of the whole network can have the moves: a flow has more than one path.
func (m *Moves) Whole() bool {
	return m != nil && (len(m.Events) > 0 || m.reorders())
}

// reorders reports whether a balance does not give each flow one path.
func (m *Moves) reorders() bool {
	return balances[cmp.Or(m.Balance, ECMP)] != network.ECMP || len(m.At) > 1 || len(m.At) == 1 && !m.has(WCMP)
}

// Sprays reports whether packets of a flowlet take several paths.
func (m *Moves) Sprays() bool { return m.has("spray") || m.has("spray-random") || m.has("adaptive") }

// Timed reports whether an event begins or ends at a time.
func (m *Moves) Timed() bool {
	return slices.ContainsFunc(m.Events, func(e Event) bool { return e.FromNS > 0 || e.ToNS > 0 })
}

// Text is Moves as scenario files and flags state them; empty: as before.
type Text struct {
	Balance, Gap, Converge, Repair, Hash string
	Receivers                            string   // InOrder or anyOrder
	Routes                               string   // directory (topology.ReadFIB), or none
	Weights                              []string // SELECTOR=SPEED
	Events                               []string // CABLES down|loss SHARE [burst TIME]|rate SPEED|delay TIME [FROM..[TO]]
}

// A TextError is about one of the texts.
type TextError struct {
	Text string
	Err  error
}

func (e *TextError) Error() string { return fmt.Sprintf("%q: %v", e.Text, e.Err) }

// Unwrap is the reason.
func (e *TextError) Unwrap() error { return e.Err }

// Apply returns former moves of a network with the changes of the text; nil if paths do not move.
func (t *Text) Apply(n *topology.Network, former *Moves) (*Moves, error) {
	m := Moves{}
	if former != nil {
		m = *former
		m.Weights, m.Events = slices.Clone(m.Weights), slices.Clone(m.Events)
	}
	var failed error // the first
	set := func(text string, change func(text string) error) {
		if text == "" || failed != nil {
			return
		}
		if err := change(text); err != nil {
			failed = &TextError{text, err}
		}
	}
	set(t.Balance, func(text string) error { return m.setBalance(n, text) })
	set(t.Routes, func(text string) (err error) {
		if m.Routes = nil; text != "none" {
			m.Routes, err = topology.ReadFIB(n, text)
		}
		return err
	})
	set(cmp.Or(t.Routes, t.Balance), func(string) error {
		if m.Routes != nil && m.has(WCMP) {
			return errors.New("balance wcmp has weights of its own, routes of files have theirs: use another balance")
		}
		return nil
	})
	bursts := m.has(flowlet) || m.Balance == conga
	if bursts && m.GapNS == 0 {
		m.GapNS = defaultGapNS
	}
	set(t.Hash, func(text string) (err error) {
		if m.Hash, err = ParseHash(text); hashes[m.Hash] == (topology.Hash{}) {
			m.Hash = ""
		}
		return err
	})
	set(t.Receivers, m.setReceivers)
	for _, w := range t.Weights {
		set(w, func(text string) error { return m.addWeight(n, text) })
	}
	for _, e := range t.Events {
		set(e, func(text string) error { return m.addEvents(n, text) })
	}
	hasDown := slices.ContainsFunc(m.Events, func(e Event) bool { return e.Kind == Down })
	set(t.Gap, duration(&m.GapNS, 1, bursts, "the gap goes with balance flowlet or conga"))
	set(t.Converge, duration(&m.ConvergeNS, 0, hasDown, `the time to converge goes with an event "down"`))
	set(t.Repair, duration(&m.RepairNS, 1, m.ConvergeNS > 1, "local repair goes with a time to converge"))
	set(cmp.Or(t.Repair, t.Converge), func(string) error {
		if m.RepairNS > 0 && m.RepairNS >= m.ConvergeNS {
			return fmt.Errorf("local repair must be faster than routes converge, %s", units.Time(m.ConvergeNS))
		}
		return nil
	})
	if failed != nil || m.Balance == "" && m.At == nil && m.Routes == nil && m.Hash == "" && len(m.Events) == 0 {
		return nil, failed
	}
	return &m, nil
}

func (m *Moves) setReceivers(text string) error {
	_, err := ParseReceivers(text)
	if err == nil && text == InOrder && !m.reorders() {
		err = errors.New("receivers in order go with a balance that reorders packets")
	}
	m.Receivers = strings.TrimPrefix(text, anyOrder)
	return err
}

// Add changes what other texts say: they add weights and events, and replace the rest.
func (t *Text) Add(more Text) {
	t.Balance, t.Gap = cmp.Or(more.Balance, t.Balance), cmp.Or(more.Gap, t.Gap)
	t.Hash, t.Routes = cmp.Or(more.Hash, t.Hash), cmp.Or(more.Routes, t.Routes)
	t.Receivers = cmp.Or(more.Receivers, t.Receivers)
	t.Converge, t.Repair = cmp.Or(more.Converge, t.Converge), cmp.Or(more.Repair, t.Repair)
	t.Weights, t.Events = append(t.Weights, more.Weights...), append(t.Events, more.Events...)
}

// Changes describes each change, for names of scenarios.
func (t *Text) Changes() (all []string) {
	for _, x := range [][2]string{{"balance ", t.Balance}, {"flowlet gap ", t.Gap}, {"converge ", t.Converge},
		{"local repair ", t.Repair}, {"hash ", t.Hash}, {"routes ", t.Routes}, {"receivers ", t.Receivers}} {
		if x[1] != "" {
			all = append(all, x[0]+x[1])
		}
	}
	return slices.Concat(all, names.Of(t.Weights, func(w string) string { return "weight " + w }), t.Events)
}

// duration returns a reader of a duration, from least to 13 days, that goes with something.
func duration(to *int64, least int64, goes bool, with string) func(text string) error {
	return func(text string) error {
		ns, err := units.Parse(text, units.Duration)
		switch {
		case err != nil:
		case !goes:
			err = errors.New(with)
		case ns < least || ns > network.MaxNS:
			err = fmt.Errorf("must be %d ns to 13 days", least)
		default:
			*to = ns
		}
		return err
	}
}

func (m *Moves) addWeight(n *topology.Network, text string) error {
	at := strings.LastIndex(text, "=")
	if !m.has(WCMP) {
		return errors.New("weights go with balance wcmp")
	}
	if at < 1 {
		return errors.New("want CABLES=SPEED, such as leaf1:spine3=400G")
	}
	speed, err := topology.ParseSpeedOrShare(text[at+1:])
	if err != nil {
		return err
	}
	cables, err := n.Select(text[:at])
	if err != nil {
		return err
	}
	for _, c := range cables {
		links, _ := n.CableOf(c[0], c[1])
		bps := speed.Of(n.Links[links[0]].BandwidthBps)
		if bps < 1 {
			return fmt.Errorf("cable %s has a weight of %d: must be above 0 (--fail takes a cable down)", n.Ends(c[0], c[1]),
				bps)
		}
		m.Weights = slices.DeleteFunc(m.Weights, func(w [3]int64) bool { return w[0] == int64(c[0]) && w[1] == int64(c[1]) })
		m.Weights = append(m.Weights, [3]int64{int64(c[0]), int64(c[1]), bps})
	}
	slices.SortFunc(m.Weights, func(a, b [3]int64) int { return slices.Compare(a[:], b[:]) })
	return nil
}

func (m *Moves) addEvents(n *topology.Network, text string) error {
	where, e, err := ParseEvent(text)
	if err != nil {
		return err
	}
	cables := make([][2]int32, 1)
	if from, to, oneWay := strings.Cut(where, "->"); oneWay {
		ends := strings.TrimSpace(from) + ":" + strings.TrimSpace(to)
		if cables[0][0], cables[0][1], err = n.Cable(ends); err == nil {
			e.OneWay = 1
			if src, _, _ := n.Pair(ends); src != cables[0][0] {
				e.OneWay = -1
			}
		}
	} else {
		cables, err = n.Select(where)
	}
	rate := e.SpeedOrShare
	for _, e.Cable = range cables {
		if links, _ := n.CableOf(e.Cable[0], e.Cable[1]); e.Kind == Rate {
			e.SpeedOrShare = topology.SpeedOrShare{BandwidthBps: rate.Of(n.Links[links[0]].BandwidthBps)}
		}
		if err == nil {
			err = m.addEvent(n, e)
		}
	}
	return err
}

// addEvent adds an event to those before it, which are in order and apart.
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
		return cmp.Or(slices.Compare(a.Cable[:], b.Cable[:]), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.FromNS, b.FromNS),
			cmp.Compare(a.OneWay, b.OneWay))
	})
	m.Events = slices.Insert(m.Events, at, e)
	return nil
}

// Check reports values that Apply does not make, and the first event that the network cannot have.
func (m *Moves) Check(n *topology.Network) error {
	if m == nil {
		return nil
	}
	_, known := balances[cmp.Or(m.Balance, ECMP)]
	bad := !known || m.Balance != "" && m.At != nil || min(m.GapNS, m.ConvergeNS, m.RepairNS) < 0 ||
		m.ConvergeNS > network.MaxNS || slices.ContainsFunc(m.Weights, func(w [3]int64) bool { return w[2] < 1 })
	for balance, ids := range m.At {
		of, known := balances[balance]
		bad = bad || !known || of >= network.PLB || slices.ContainsFunc(ids, func(id int32) bool {
			_, is := n.Node(id)
			return !is
		})
	}
	if bad {
		return errors.New("its balances, weights or times of paths that move are damaged")
	}
	for i := range m.Events {
		if err := m.Events[i].check(n); err != nil {
			return err
		}
	}
	return nil
}

func (e *Event) check(n *topology.Network) error {
	links, ok := n.CableOf(e.Cable[0], e.Cable[1])
	if !ok {
		return fmt.Errorf("event %s: no such cable", e.Describe(n))
	}
	lossy := min(e.Share, 1-e.Share) > 0 && (e.BurstNS == 0 || e.BurstNS >= network.MinBurstNS)
	if !slices.Contains([]string{Down, Loss, Rate, Delay}, e.Kind) || e.Kind == Loss && !lossy || e.FromNS < 0 ||
		max(e.FromNS, e.ToNS) > math.MaxInt64/2 || e.BurstNS > network.MaxNS || e.ToNS != 0 && e.ToNS <= e.FromNS {
		return fmt.Errorf("event %s: no such kind, share, burst or time", e.Describe(n))
	}
	l := n.Links[links[0]]
	if e.Kind == Rate && (e.BandwidthBps < simkernel.MinBps || e.BandwidthBps > l.BandwidthBps) {
		return fmt.Errorf("event %s: must be 10 kbps to the cable's %s", e.Describe(n), topology.FormatBps(l.BandwidthBps))
	}
	if e.Kind == Delay && (e.DelayNS < l.DelayNS || e.DelayNS > network.MaxDelayNS) {
		return fmt.Errorf("event %s: must be the cable's %s to a minute", e.Describe(n), units.Time(l.DelayNS))
	}
	return nil
}

// CheckSpan reports the first event that happens before the first of a workload's flows starts, or when all of them
// have surely finished (latestEndNS; math.MaxInt64 if that is not known). An event after the last start is inside the
// run as long as a flow may live.
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

// LateEvents returns a remark for each event that begins when the last flow has ended. Such an event changes nothing.
func (m *Moves) LateEvents(n *topology.Network, lastEndNS int64) (remarks []string) {
	if m == nil {
		return nil
	}
	for i := range m.Events {
		if e := &m.Events[i]; e.FromNS > lastEndNS {
			remarks = append(remarks, fmt.Sprintf("event %s changes nothing: the last flow has finished at %s", e.Describe(n),
				units.Time(lastEndNS)))
		}
	}
	return remarks
}

// instead shows the event at its time after the first flow of a trace with dates, where it has none itself.
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

// Describe names the balance and the events.
func (m *Moves) Describe(n *topology.Network) string {
	all := []string{"balance " + cmp.Or(m.Balance, ECMP)}
	for _, balance := range slices.Sorted(maps.Keys(m.At)) {
		all = append(all, fmt.Sprintf("%s at %s", balance, topology.Count(len(m.At[balance]), "switch")))
	}
	if m.Hash != "" {
		all = append(all, "hash "+m.Hash)
	}
	events := names.Of(m.Events, func(e Event) string { return e.Describe(n) })
	return names.Listed(append(all, events...), 5)
}

// Describe writes the event as it is parsed.
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

// Aeons is how many times smaller a time is than the first of a trace if it is not in its unit: of ns and of the next
// unit, µs, a thousand.
const Aeons = 500

// ParseEvent reads CABLES down|loss SHARE [burst TIME]|rate SPEED|delay TIME [FROM..[TO]]. CABLES is a selector, or
// A->B for one direction. Times are those of flow starts: 10ms, ns, or 2026-01-31T09:00:00Z.
func ParseEvent(text string) (cable string, e Event, err error) {
	words := strings.Fields(text)
	at := slices.IndexFunc(words, func(w string) bool { return slices.Contains([]string{Down, Loss, Rate, Delay}, w) })
	if at < 1 {
		return "", e, errors.New("want CABLES down|loss SHARE [burst TIME]|rate SPEED|delay TIME [FROM..[TO]], such as " +
			"'leaf1:spine3 down 10ms..50ms'")
	}
	cable, e.Kind = strings.Join(words[:at], " "), words[at]
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
		if err == nil && (e.BurstNS < network.MinBurstNS || e.BurstNS > network.MaxNS) {
			err = fmt.Errorf("%q: bursts of losses must last 1µs to 13 days in the mean", words[1])
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
		err = fmt.Errorf("want times FROM..TO for cable %s (--fail takes a cable down for ever)", cable)
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

// ParseTime reads a time of flow starts: ns, a duration, or a date as units.ParseDate.
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
		err = fmt.Errorf("%q is no time: want one such as 2026-01-31T09:00:00Z, a duration such as 10ms, or ns", text)
	case ns < 0:
		err = fmt.Errorf("%q is before the trace", text)
	}
	return ns, err
}
