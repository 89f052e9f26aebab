package moves

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"parsimon/schema/names"
	"parsimon/schema/units"
	"parsimon/simkernel/network"
	"parsimon/stages/topology"
)

// Text is Moves as text in scenario files and flags. An empty field changes nothing.
type Text struct {
	Balance, Gap, Converge, Repair, Hash string
	Receivers                            string   // InOrder or anyOrder
	Routes                               string   // directory (topology.ReadFIB), or none
	Weights                              []string // SELECTOR=SPEED
	// CABLES down|loss SHARE [burst TIME]|rate SPEED|delay TIME [FROM..[TO]]
	Events []string
}

// A TextError is an error in one of the texts.
type TextError struct {
	Text string
	Err  error
}

func (e *TextError) Error() string { return fmt.Sprintf("%q: %v", e.Text, e.Err) }

// Unwrap returns the reason.
func (e *TextError) Unwrap() error { return e.Err }

// Apply returns the moves of a network after the changes of the text to former, or nil if paths do not
// change.
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
		m.Routes = nil
		if text != "none" {
			m.Routes, err = topology.ReadFIB(n, text)
		}
		return err
	})
	set(cmp.Or(t.Routes, t.Balance), func(string) error {
		if m.Routes != nil && m.has(WCMP) {
			return errors.New("balance wcmp sets weights, and so do routes of files: use another balance")
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

// Add merges another text: its weights and events are added, and its other fields replace those of t.
func (t *Text) Add(more Text) {
	t.Balance, t.Gap = cmp.Or(more.Balance, t.Balance), cmp.Or(more.Gap, t.Gap)
	t.Hash, t.Routes = cmp.Or(more.Hash, t.Hash), cmp.Or(more.Routes, t.Routes)
	t.Receivers = cmp.Or(more.Receivers, t.Receivers)
	t.Converge, t.Repair = cmp.Or(more.Converge, t.Converge), cmp.Or(more.Repair, t.Repair)
	t.Weights = append(t.Weights, more.Weights...)
	t.Events = append(t.Events, more.Events...)
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

// duration returns a parser of a duration from least to 13 days. If goes is false, the parser returns the
// error with.
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
