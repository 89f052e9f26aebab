// Package scenario reads scenario files, checks them, and applies changes to them.
//
//	YAML file, --set, flags ─► tree.Field (value, key, line) ─► Scenario
//	topology + flow file, ingested workload ─► Scenario ─► Network, Workload, Params, Canonical ─► IDOf
//	base scenario ─► Changes.Apply ─► changed network and canonical form ─► id of the changed scenario
//
// The id is a digest of the canonical form, which has everything that the rows of the results depend on, and
// nothing else. Two spellings of a scenario therefore have the same id. Every error names the file, the line
// and the key.
package scenario

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"parsimon/schema/names"
	"parsimon/schema/tree"
	"parsimon/simkernel"
	"parsimon/stages/moves"
	"parsimon/stages/topology"
	"parsimon/stages/topology/format"
	"parsimon/stages/workload"
)

// Changes make one scenario out of another.
type Changes struct {
	Do []Change
	// FailTier has the cables from which changes "fail random:K" draw K that are up. The draw depends on the
	// scenario's seed and on Draw.
	FailTier string
	Draw     uint64
	// PathMoves change the choice of paths and add events.
	PathMoves moves.Text
	// Settings change the transport, the switches and the choice of paths, as keys of a scenario file do
	// (IsSetting).
	Settings []Setting
	// FoundStarts makes flows start at the times that the simulation of the base's whole network found. No
	// flow then waits for others.
	FoundStarts bool

	Name             string // of the resulting scenario; empty: the base's, and the changes
	AllowUnreachable bool
}

// A Change is one change, as stated by flag --KIND TEXT of what-if.
type Change struct {
	kind int // place in changeKinds
	make func(*application) error
}

// changeKinds are the kinds of changes, in the order in which they are applied. parse parses the text of one.
var changeKinds = []struct {
	name  string
	of    string // the kind of change, as part of a key of a sweep
	parse func(text string) (func(*application) error, error)
}{
	{"add-cable", "", parseAddition},
	{"fail", "", parseFailure},
	{"bandwidth", ".CABLES", parseBandwidth},
	{"delay", ".CABLES", parseDelay},
	{"scale", ".SERVICE", parseScale},
	{"move", ".SERVICE", parseMove},
}

// ParseChange parses a change. Apply checks later whether the network has what the change names.
func ParseChange(kind, text string) (c Change, err error) {
	var names []string
	for i, k := range changeKinds {
		if k.name == kind {
			c.kind = i
			c.make, err = k.parse(text)
			return c, err
		}
		names = append(names, k.name+k.of)
	}
	return c, fmt.Errorf("a scenario of the lake has the keys transport.KEY, switches.KEY, balance, %s",
		strings.Join(names, ", "))
}

// IsSetting reports whether a key of a scenario file is one of Changes.Settings.
func IsSetting(key string) bool {
	top, _, _ := strings.Cut(Setting{Key: key}.FullKey(), ".")
	return slices.Contains([]string{"transport", "switches", "balance", "flowlet_gap", "converge", "hash",
		"local_repair", "receivers", "weights", "events"}, top)
}

// canonicalChanges are the changes of a scenario that a scenario file cannot state. They follow those of its
// base, step by step.
type canonicalChanges struct {
	Cables    [][4]int64            `json:"cables,omitempty"`    // added: ends, bps, ns, by ends
	Bandwidth [][3]int64            `json:"bandwidth,omitempty"` // ends and bps, by ends
	Delays    [][3]int64            `json:"delays,omitempty"`    // ends and ns, by ends
	Members   [][3]int64            `json:"members,omitempty"`   // failed ones of LAGs: ends and number, by ends
	Flows     []canonicalFlowChange `json:"flows,omitempty"`
	Starts    string                `json:"starts,omitempty"` // of flows that waited for others: "exact"
}

type canonicalFlowChange struct {
	Scale map[string]float64 `json:"scale,omitempty"`
	Move  map[string][]int   `json:"move,omitempty"`
}

// Applied describes what Apply did.
type Applied struct {
	*Settled
	Descriptions []string             // a description of each change
	Cables       []CableChange        // every cable that changed
	Flows        workload.FlowChanges // the base's are shared where none does
}

// A CableChange is a cable that changed, with its properties before and after.
type CableChange struct {
	Cable              string `json:"cable"`          // A:B by the names of its ends
	Down               bool   `json:"down,omitempty"` // it was up
	Added              bool   `json:"added,omitempty"`
	BeforeBandwidthBps int64  `json:"before_bandwidth_bps"`
	BandwidthBps       int64  `json:"bandwidth_bps"`
	BeforeDelayNS      int64  `json:"before_delay_ns"`
	DelayNS            int64  `json:"delay_ns"`
	// LongerNS is set for an added cable with the default delay. It is the delay of other cables at both
	// ends, if that is much longer.
	LongerNS int64 `json:"longer_ns,omitempty"`
}

// An application applies changes to a network and to the canonical form of its scenario, step by step.
type application struct {
	*Changes
	n            *topology.Network
	seed         uint64
	form         canonicalScenario
	of           Scenario // its transport, switches and moves
	descriptions []string
	flows        workload.FlowChanges
	drew         bool // cables of FailTier
}

func (a *application) describe(format string, args ...any) {
	a.descriptions = append(a.descriptions, fmt.Sprintf(format, args...))
}

// Apply applies the changes to a network, to the transport and to the canonical form of its scenario.
func (c *Changes) Apply(n *topology.Network, canonical []byte, seed uint64, p simkernel.Params) (*Applied,
	error) {
	a := &application{Changes: c, n: n, seed: seed,
		flows: workload.FlowChanges{Scale: map[string]float64{}, Move: map[string][]int{}}}
	if err := json.Unmarshal(canonical, &a.form); err != nil {
		return nil, err
	}
	if a.form.Changes == nil {
		a.form.Changes = &canonicalChanges{}
	}
	before := slices.Clone(n.Links)
	inOrder := slices.SortedStableFunc(slices.Values(c.Do),
		func(a, b Change) int { return cmp.Compare(a.kind, b.kind) })
	for _, change := range inOrder {
		if err := change.make(a); err != nil {
			return nil, fmt.Errorf("%s: %w", changeKinds[change.kind].name, err)
		}
	}
	if c.FailTier != "" && !a.drew {
		return nil, errors.New("--tier goes with --fail random:K")
	}
	a.changeFlows()
	a.of = Scenario{Seed: seed, params: p, switches: Switches{BufferParams: a.form.Switches},
		classes: a.form.Classes, at: map[string]tree.Field{}}
	err := a.changeSettings()
	text := a.of.PathMoves // of settings, and
	text.Add(a.PathMoves)
	if err == nil {
		a.form.Moves, err = text.Apply(a.n, a.form.Moves)
	}
	if err = cmp.Or(err, a.form.Moves.Check(a.n)); err != nil {
		return nil, err
	}
	a.descriptions = append(a.descriptions, text.Changes()...)
	if c.FoundStarts {
		a.form.Changes.Starts = "exact"
		a.describe("starts from exact")
	}
	changed, err := a.form.settled(n, a.of.Params())
	return &Applied{changed, a.descriptions, changedCables(n, before), a.flows}, err
}

func (a *application) changeSettings() (err error) {
	if len(a.Settings) == 0 {
		return nil
	}
	err = a.of.SetAll(a.Settings)
	var field *tree.FieldError
	if errors.As(err, &field) {
		err = fmt.Errorf("%s: %w", field.Key, field.Err)
	}
	if err != nil {
		return Refusal{err}
	}
	if a.of.switches.OfTopology || a.of.ofSwitches {
		return Refusal{errors.New("a scenario of the lake has no configurations of switches: give the buffer's " +
			"size, and classes by name")}
	}
	for _, s := range a.Settings {
		key := s.FullKey()
		if strings.Contains(key, ".") { // else moves say it
			a.describe("%s", s)
		}
	}
	a.form.Classes = a.of.classes
	if a.form.Switches, err = a.of.Buffers(); err == nil {
		a.form.Transport, err = json.Marshal(canonicalTransport(a.of.params))
	}
	return err
}

// changedCables returns the cables of a network that differ from its earlier links.
func changedCables(n *topology.Network, before []topology.Link) (list []CableChange) {
	for i := 0; i < len(n.Links); i += 2 {
		l := n.Links[i]
		c := CableChange{Cable: n.CableName(l.ID / 2), BandwidthBps: l.BandwidthBps, DelayNS: l.DelayNS,
			Added: i >= len(before)}
		if c.Added {
			other := min(longest(before, l.Src), longest(before, l.Dst))
			if l.DelayNS == format.DefaultDelayNS && other >= 10*l.DelayNS {
				c.LongerNS = other
			}
		} else {
			was := before[i]
			if was == l {
				continue
			}
			c.BeforeBandwidthBps = was.BandwidthBps
			c.BeforeDelayNS = was.DelayNS
			c.Down = l.Failed && !was.Failed
		}
		list = append(list, c)
	}
	return list
}

// longest returns the longest delay of a node's cables.
func longest(links []topology.Link, node int32) (ns int64) {
	for _, l := range links {
		if l.Src == node {
			ns = max(ns, l.DelayNS)
		}
	}
	return ns
}

// String returns one line for users.
func (c CableChange) String() string {
	switch {
	case c.Added && c.LongerNS > 0:
		return fmt.Sprintf("%s added at %s, delay %v by default, although both ends have cables of %v: say "+
			"A:B=SPEED,DELAY",
			c.Cable, topology.FormatBps(c.BandwidthBps), time.Duration(c.DelayNS), time.Duration(c.LongerNS))
	case c.Added:
		return fmt.Sprintf("%s added at %s, delay %v", c.Cable, topology.FormatBps(c.BandwidthBps),
			time.Duration(c.DelayNS))
	case c.Down:
		return c.Cable + " down"
	}
	var parts []string
	if c.BandwidthBps != c.BeforeBandwidthBps {
		parts = append(parts, topology.FormatBps(c.BeforeBandwidthBps)+" → "+topology.FormatBps(c.BandwidthBps))
	}
	if c.DelayNS != c.BeforeDelayNS {
		parts = append(parts, fmt.Sprintf("%v → %v", time.Duration(c.BeforeDelayNS), time.Duration(c.DelayNS)))
	}
	return c.Cable + " " + strings.Join(parts, ", ")
}

// cutValue splits NAME=VALUE at the last equals sign.
func cutValue(text string) (name, value string, err error) {
	at := strings.LastIndexByte(text, '=')
	if at < 0 {
		return "", "", errors.New("want NAME=VALUE")
	}
	return text[:at], text[at+1:], nil
}

// parseAddition parses a cable to add, A:B=BANDWIDTH[,DELAY].
func parseAddition(text string) (func(*application) error, error) {
	ends, value, err := cutValue(text)
	if err != nil {
		return nil, errors.New("want A:B=100G or A:B=100G,500ns")
	}
	c := topology.Cable{DelayNS: format.DefaultDelayNS}
	bandwidth, delay, hasDelay := strings.Cut(value, ",")
	if c.BandwidthBps, err = topology.ParseSpeed(bandwidth); err == nil && hasDelay {
		c.DelayNS, err = topology.ParseDelay(delay)
	}
	return func(a *application) error {
		x, y, err := a.n.Pair(ends)
		if err != nil {
			return fmt.Errorf("%q: %w", ends, err)
		}
		c.A = min(x, y)
		c.B = max(x, y)
		c.Parallel = true
		if err := a.n.AddCable(c); err != nil {
			return err
		}
		text := topology.FormatBps(c.BandwidthBps)
		if c.DelayNS != format.DefaultDelayNS {
			text += " " + time.Duration(c.DelayNS).String()
		}
		a.describe("%s added at %s", a.n.Ends(c.A, c.B), text)
		added := [4]int64{int64(c.A), int64(c.B), c.BandwidthBps, c.DelayNS}
		a.form.Changes.Cables = append(a.form.Changes.Cables, added)
		return nil
	}, err
}

// parseFailure parses what fails, as in Scenario.Fail, or random:K.
func parseFailure(text string) (func(*application) error, error) {
	number, random := strings.CutPrefix(text, "random:")
	if !random {
		return func(a *application) error { return a.fail(text) }, nil
	}
	k, err := strconv.Atoi(number)
	if err != nil || k < 1 {
		return nil, errors.New("want random:K, with K at least 1")
	}
	return func(a *application) error {
		if a.FailTier == "" {
			return errors.New("random:K needs --tier")
		}
		a.drew = true
		drawn, err := a.n.DrawCables(a.FailTier, k, a.seed, a.Draw)
		for _, cable := range drawn {
			err = errors.Join(err, a.fail(fmt.Sprintf("%d:%d", cable[0], cable[1])))
		}
		return err
	}, nil
}

func (a *application) fail(text string) error {
	failures, err := a.n.FailNamed(text)
	if err != nil {
		return err
	}
	for _, f := range failures {
		a.form.failed(f)
	}
	x, y, isCable := a.n.Cable(text)
	if isCable == nil {
		text = a.n.Ends(x, y)
	} else if len(failures) > 1 {
		text += " with " + topology.Count(len(failures), "cable")
	}
	a.describe("%s down", text)
	return nil
}

// parseBandwidth parses CABLES=SPEED or CABLES=SHARE%.
func parseBandwidth(text string) (func(*application) error, error) {
	selector, value, err := cutValue(text)
	if err != nil {
		return nil, err
	}
	speed, err := topology.ParseSpeedOrShare(value)
	if errors.Is(err, topology.ErrZeroSpeed) {
		err = fmt.Errorf("%w: --fail %s takes it down", err, selector)
	}
	if speed.Share == 0 {
		value = topology.FormatBps(speed.BandwidthBps)
	}
	of := func(l *topology.Link) (was, is int64) { return l.BandwidthBps, speed.Of(l.BandwidthBps) }
	return func(a *application) error {
		a.describe("%s at %s", selector, value)
		return a.setCables(selector, &a.form.Changes.Bandwidth, of, a.n.SetBandwidth)
	}, err
}

// parseDelay reads CABLES=TIME.
func parseDelay(text string) (func(*application) error, error) {
	rule, err := topology.ParseDelayRule(text)
	return func(a *application) error {
		a.describe("%s at %d ns", rule.Selector, rule.DelayNS)
		of := func(l *topology.Link) (was, is int64) { return l.DelayNS, rule.DelayNS }
		return a.setCables(rule.Selector, &a.form.Changes.Delays, of, a.n.SetDelay)
	}, err
}

// setCables sets a value of cables. It adds those whose value changes to a list of the canonical form. All
// members of a LAG get the same value, which is computed once: a share is one of the present bandwidth.
func (a *application) setCables(selector string, list *[][3]int64, of func(*topology.Link) (was, is int64),
	set func(a, b int32, value int64) error) error {
	cables, err := a.n.Select(selector)
	for _, cable := range cables {
		for _, l := range a.n.LinksBetween(cable[0], cable[1]) {
			was, is := of(&a.n.Links[l])
			if err == nil && was != is {
				err = set(cable[0], cable[1], is)
				*list = setCable(*list, cable, is)
				break
			}
		}
	}
	return err
}

// parseScale parses SERVICE=FACTOR, or several separated by commas.
func parseScale(text string) (func(*application) error, error) {
	parts := strings.Split(text, ",")
	// a name with a comma
	if slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(p, "=") }) {
		parts = []string{text}
	}
	factors := map[string]float64{}
	for _, part := range parts {
		service, value, err := cutValue(part)
		if err != nil {
			return nil, err
		}
		x, err := parseFactor(value)
		if _, twice := factors[service]; err != nil || !(x >= 0 && x <= workload.MaxScale) || twice {
			return nil, fmt.Errorf("%q: want a factor from 0 to %d such as 1.5, or a change such as +50%%, once for "+
				"a service",
				part, workload.MaxScale)
		}
		factors[service] = x
	}
	return func(a *application) error {
		for service, x := range factors {
			if _, twice := a.flows.Scale[service]; twice {
				return fmt.Errorf("service %q is scaled twice", service)
			}
			a.flows.Scale[service] = x
		}
		return nil
	}, nil
}

// parseFactor parses 1.5, 150%, +50% or -20%.
func parseFactor(text string) (float64, error) {
	number, percent := strings.CutSuffix(text, "%")
	x, err := strconv.ParseFloat(number, 64)
	change := strings.HasPrefix(text, "+") || strings.HasPrefix(text, "-")
	switch {
	case err != nil || change && !percent:
		return 0, fmt.Errorf("%q is no factor", text)
	case change:
		return (100 + x) / 100, nil
	case percent:
		return x / 100, nil
	}
	return x, nil
}

// parseMove reads SERVICE=RACKS.
func parseMove(text string) (func(*application) error, error) {
	service, racks, err := cutValue(text)
	if err != nil || racks == "" {
		return nil, errors.New("want SERVICE=RACKS, racks such as leaf3,leaf4 or 4-7")
	}
	return func(a *application) error {
		if _, twice := a.flows.Move[service]; twice {
			return fmt.Errorf("service %q moves twice", service)
		}
		if a.flows.Move[service], err = a.n.RackList(racks); err != nil {
			return fmt.Errorf("%s: %w", service, err)
		}
		once := map[int]bool{} // two switches of one rack name it twice
		a.flows.Move[service] = slices.DeleteFunc(a.flows.Move[service], func(rack int) bool {
			again := once[rack]
			once[rack] = true
			return again
		})
		return nil
	}, nil
}

func (a *application) changeFlows() {
	for _, name := range slices.Sorted(maps.Keys(a.flows.Scale)) {
		a.describe("%s ×%v", name, a.flows.Scale[name])
	}
	racks := a.n.RackNames()
	for _, name := range slices.Sorted(maps.Keys(a.flows.Move)) {
		to := names.Of(a.flows.Move[name], func(r int) string { return racks[r] })
		a.describe("%s to %s", name, strings.Join(to, " "))
	}
	if len(a.flows.Scale)+len(a.flows.Move) > 0 {
		a.form.Changes.Flows = append(a.form.Changes.Flows, canonicalFlowChange{a.flows.Scale, a.flows.Move})
	}
}
