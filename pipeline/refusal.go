package pipeline

import (
	"errors"
	"fmt"
	"math"

	"parsimon/pipeline/scenario"
	"parsimon/stages"
)

// A Feature is something that a scenario has or that is asked of it, and that not every other feature goes with. Its
// text is for people.
type Feature string

// Purposes of an estimate other than its own answer.
const (
	ForWindows    Feature = "windows of time (--within)"
	ForDifference Feature = "a comparison of estimates by link cases"
)

// Features of scenarios and of changes, and the estimators by link cases.
const (
	linkCases   Feature = "estimator %s"
	waiting     Feature = "flows that wait for the delivery of others"
	moving      Feature = "paths that move (%s)"
	sprayed     Feature = "packets of a flow on several paths (%s)"
	timed       Feature = "events at given times (%s)"
	inOrder     Feature = "receivers that take packets in order only"
	limited     Feature = "switches with buffers of %d bytes"
	selective   Feature = "selective recovery"
	classed     Feature = "traffic classes"
	tcp         Feature = "TCP %v"
	telemetry   Feature = "transport %v"
	unreachable Feature = "--allow-unreachable"
	scaled      Feature = "services that are scaled"
)

// conflicts lists the features that do not go together, and what to do instead.
var conflicts = []struct {
	a, b    Feature
	instead string
}{
	{waiting, linkCases, "only the whole network finds their starts: use --estimator exact; with --starts-from exact " +
		"others take them from there"},
	{waiting, ForWindows, "estimate the whole workload, without --within; or --starts-from exact first"},
	{waiting, scaled, "change the workload, or a scenario made with --starts-from exact"},
	{waiting, unreachable, "flows that wait for one without a path would wait for ever"},
	{moving, linkCases, "only the whole network has that: use --estimator exact, or --balance ecmp or wcmp and no events"},
	{timed, ForWindows, "a sample of windows meets them by chance: estimate the whole workload, without --within"},
	{sprayed, telemetry, "its senders compare what switches report of one path: use dctcp, or a balance by flow or flowlet"},
	{inOrder, tcp, "TCP's receivers take packets in any order (SACK): use another transport, or --receivers any-order"},
	{inOrder, selective, "selective recovery is of receivers that take packets in any order: use one of them"},
	{tcp, linkCases, "its senders send when ACKs come, which link cases do not model: use --estimator exact or auto"},
	{classed, linkCases, "link cases have one queue at each port: use --estimator exact or auto"},
	{classed, ForDifference, "link cases have one queue at each port: use --estimator exact"},
	{limited, ForDifference, "link cases have buffers without an end: use --estimator exact"},
}

// Refuse is a scenario.Refusal, which names two features and what to do instead, if the scenario, an estimate of a
// variant and other features do not go together. A variant that chooses accepts every option that one of its choices
// accepts.
func (m *Model) Refuse(v Variant, others ...Feature) error {
	has := map[Feature]string{}
	add := func(is bool, f Feature, args ...any) {
		if is {
			has[f] = fmt.Sprintf(string(f), args...)
		}
	}
	for _, f := range others {
		add(f != "", f)
	}
	spec, t := &m.Spec, m.Spec.Params.Transport
	byLinkCases := !v.Auto && v.Estimator != stages.WholeNetwork
	add(m.waits, waiting)
	add(byLinkCases, linkCases, v.Estimator)
	add(spec.Windows != nil, ForWindows)
	if spec.Moves.Whole() {
		described := spec.Moves.Describe(m.Network)
		add(true, moving, described)
		add(spec.Moves.Sprays(), sprayed, described)
		add(spec.Moves.Timed(), timed, described)
		add(spec.Moves.Receivers != "", inOrder)
	}
	add(!spec.Switches.IsZero(), limited, spec.Switches.SwitchBytes)
	add(spec.Switches.Selective, selective)
	add(spec.Classes != nil, classed)
	add(t.Traits().AckClocked, tcp, t)
	add(t.Traits().Telemetry, telemetry, t)
	add(spec.AllowUnreachable, unreachable)
	if !byLinkCases {
		delete(has, ForDifference)
	}
	for _, c := range conflicts {
		if has[c.a] != "" && has[c.b] != "" {
			return scenario.Refusal{Err: fmt.Errorf("%s and %s do not go together: %s", has[c.a], has[c.b], c.instead)}
		}
	}
	return nil
}

// check reports settings that do not go together, what Refuse reports, and a network that cannot be simulated whole
// where only that answers.
func (m *Model) check(v Variant, o Settings) error {
	err := errors.Join(checkVariant(v), m.Refuse(v, o.For))
	// What-if then takes link cases, but with limited buffers.
	exact := v.Estimator == stages.WholeNetwork && (o.For != ForDifference || !m.Spec.Switches.IsZero())
	whole := v.Auto && (m.Refuse(Variant{Estimator: stages.Flow}) != nil || !m.Spec.Switches.IsZero())
	if err != nil || !exact && !whole {
		return err
	}
	err = stages.CheckWholeNetwork(m.Network, m.Spec.Params, m.Spec.Switches, m.Spec.Classes, &stages.Loads{})
	if err != nil && (m.Spec.Classes != nil || !m.Spec.Switches.IsZero()) {
		return scenario.Refusal{Err: fmt.Errorf("switches: %w", err)}
	}
	return err
}

// checkVariant reports settings that do not go together.
func checkVariant(v Variant) error {
	if v.Cluster != nil && v.Estimator != stages.Independent {
		return errors.New("links are clustered for estimator independent only")
	}
	return nil
}

// refuseFlows is Refuse for a workload, and an error for events outside its time.
func (m *method) refuseFlows(g *Generated) error {
	m.waits = g.Closed()
	if err := m.Refuse(m.variant, m.For); err != nil || !m.Spec.Moves.Whole() {
		return err
	}
	lastNS := g.LastStartNS
	if m.waits {
		lastNS = math.MaxInt64
	}
	return m.Spec.Moves.CheckSpan(m.Network, g.FirstStartNS, lastNS)
}

// Closed reports whether flows of the workload wait for others, or are compute steps.
func (g *Generated) Closed() bool { return g.Dependencies > 0 || g.ComputeSteps > 0 }
