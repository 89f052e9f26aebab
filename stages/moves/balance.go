package moves

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"parsimon/simkernel/network"
	"parsimon/stages/topology"
)

// The balances, by name.
const (
	ECMP    = "ecmp" // the default
	WCMP    = "wcmp" // ECMP with weights
	flowlet = "flowlet"
	conga   = "conga"
)

var balances = map[string]network.Balance{ECMP: network.ECMP, WCMP: network.ECMP, flowlet: network.Flowlet,
	"spray": network.Spray, "spray-random": network.Random, "adaptive": network.Adaptive, "plb": network.PLB,
	conga: network.CONGA}

// Balances describes the choices for help texts.
const Balances = "ecmp, wcmp (a flow's path is chosen by bandwidth or by the key weights), flowlet (a path " +
	"for each burst), spray (packets take the links alternately), spray-random (at random), adaptive (each " +
	"packet takes the shortest queue), plb (senders choose another path after congestion) or conga (each burst " +
	"takes the least congested path)"

// InOrder receivers drop packets that arrive out of order, as network cards with go-back-N do. anyOrder is
// the default for balances that reorder packets.
const (
	InOrder  = "in-order"
	anyOrder = "any-order"
)

// ParseReceivers returns text if it is a name of receivers.
func ParseReceivers(text string) (string, error) {
	if text != InOrder && text != anyOrder {
		return "", errors.New("no receivers: want in-order or any-order")
	}
	return text, nil
}

var hashes = map[string]topology.Hash{"flow": {}, "addresses": {Addresses: true},
	"polarized": {Polarized: true}, "addresses,polarized": {Addresses: true, Polarized: true}}

// ParseHash returns text if it is the name of a hash.
func ParseHash(text string) (string, error) {
	if _, known := hashes[text]; !known {
		return "", errors.New("no hash: want flow, addresses, polarized or addresses,polarized")
	}
	return text, nil
}

type rule struct{ which, balance string } // a selector: a kind of switch (tor) or a pattern of names (leaf*)

func (r rule) fits(v topology.Node) bool {
	return v.Kind != topology.KindHost && (v.Kind == r.which || topology.MatchPattern(r.which, v.Name))
}

// parseRules parses one of Balances, as a rule without switches, or SWITCHES=BALANCE,... with balances that
// single switches can have.
func parseRules(text string) (rules []rule, err error) {
	for part := range strings.SplitSeq(text, ",") {
		which, balance, at := strings.Cut(part, "=")
		if !at {
			which = ""
			balance = text
		}
		if of, known := balances[balance]; !known || at && of >= network.PLB {
			return nil, fmt.Errorf("no balance: want %s; or SWITCHES=BALANCE,..., such as tor=flowlet, with one of "+
				"the first six",
				Balances)
		}
		rules = append(rules, rule{which, balance})
	}
	return rules, nil
}

// ParseBalance returns text if it is one of Balances, or SWITCHES=BALANCE,... with balances that single
// switches can have.
func ParseBalance(text string) (string, error) {
	_, err := parseRules(text)
	return text, err
}

// defaultGapNS is the default gap that starts a new flowlet: three round trips of the paper's networks.
// (CONGA, SIGCOMM'14, uses 500 µs for slower networks.)
const defaultGapNS = 50_000

// setBalance sets the balance of all switches, or of the switches that the rules of a text name. For each
// switch, the first rule that matches is used.
func (m *Moves) setBalance(n *topology.Network, text string) error {
	rules, err := parseRules(text)
	if err != nil {
		return err
	}
	m.Balance = ""
	m.At = nil
	m.GapNS = 0
	m.Weights = nil
	m.Receivers = ""
	if rules[0].balance == text { // for all switches
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
		i := slices.IndexFunc(rules, func(r rule) bool { return r.fits(v) })
		if i >= 0 && rules[i].balance != ECMP {
			m.At[rules[i].balance] = append(m.At[rules[i].balance], v.ID)
		}
	}
	if len(m.At) == 0 {
		m.At = nil
	}
	return nil
}

func (m *Moves) setReceivers(text string) error {
	_, err := ParseReceivers(text)
	if err == nil && text == InOrder && !m.reorders() {
		err = errors.New("receivers in order go with a balance that reorders packets")
	}
	m.Receivers = strings.TrimPrefix(text, anyOrder)
	return err
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
		present := int64(0) // of the cable or of all members of the LAG
		for _, member := range n.Members(c[0], c[1]) {
			present += n.Links[2*member].BandwidthBps
		}
		bps := speed.Of(present)
		if bps < 1 {
			return fmt.Errorf("cable %s has a weight of %d: must be above 0 (--fail takes a cable down)",
				n.Ends(c[0], c[1]), bps)
		}
		m.Weights = slices.DeleteFunc(m.Weights, func(w [3]int64) bool {
			return w[0] == int64(c[0]) &&
				w[1] == int64(c[1])
		})
		m.Weights = append(m.Weights, [3]int64{int64(c[0]), int64(c[1]), bps})
	}
	slices.SortFunc(m.Weights, func(a, b [3]int64) int { return slices.Compare(a[:], b[:]) })
	return nil
}

// linkWeights returns the weights of links in the choice of paths, by link id, or nil if all cables count
// alike. The weight of a LAG is divided among its members that are up. Without WCMP, a LAG weighs as much as
// a single cable.
func (m *Moves) linkWeights(n *topology.Network) []float64 {
	wcmp := m != nil && m.has(WCMP)
	if !wcmp && !n.HasLAGs() {
		return nil
	}
	of := map[[2]int32]int64{}
	if wcmp {
		for _, w := range m.Weights {
			of[[2]int32{int32(w[0]), int32(w[1])}] = w[2]
		}
	}
	weights := make([]float64, len(n.Links))
	for i, l := range n.Links {
		members := float64(max(1, n.MembersUp(l.ID)))
		weights[i] = 1 / members
		if wcmp && (m.Balance == WCMP || slices.Contains(m.At[WCMP], l.Src)) {
			weights[i] = float64(l.BandwidthBps)
			set := of[[2]int32{min(l.Src, l.Dst), max(l.Src, l.Dst)}]
			if set > 0 {
				weights[i] = float64(set) / members
			}
		}
	}
	return weights
}

func (m *Moves) has(balance string) bool { return m.Balance == balance || m.At[balance] != nil }

// reorders reports whether packets of a flow may take several paths.
func (m *Moves) reorders() bool {
	return balances[cmp.Or(m.Balance, ECMP)] != network.ECMP || len(m.At) > 1 || len(m.At) == 1 && !m.has(WCMP)
}

// Sprays reports whether packets of a flowlet may take several paths.
func (m *Moves) Sprays() bool { return m.has("spray") || m.has("spray-random") || m.has("adaptive") }
