package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"parsimon/pipeline/catalog"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/variant"
	"parsimon/stages/diagnose"
	"parsimon/stages/estimators"
	"parsimon/stages/exact"
	"parsimon/stages/route"
	"parsimon/stages/step"
)

// An automatic estimate (Variant.Auto) simulates the whole network (estimator exact) if this is affordable:
// if it takes at most a minute of processor time, or at most affordableRatio times the processor time of two
// passes of link cases. Otherwise it runs two passes of link cases. If link cases are not accurate enough,
// the whole network is simulated for up to Settings.ExactLimit packet-hops. This happens at once if the
// reason is known before the passes. Otherwise it happens after two passes, whose tables are then removed
// (MakeAnswer). Above the limit, the estimate is that of the two passes, with warnings.
//
// The choice depends only on the scenario and the estimate, not on the machine or on other data of the lake.
const (
	affordableNS    = 60e9
	affordableRatio = 2
)

// DefaultExactLimit is the default of Settings.ExactLimit. Simulating 10 G packet-hops with 6,144 hosts takes
// 21 minutes of processor time.
const DefaultExactLimit = 10_000_000_000

// affordable reports whether the whole network is simulated without running two passes of link cases first.
func affordable(w *step.WorkloadSize) bool {
	exact := estimators.Exact.Estimator().Cost(w, choosingWorkers)
	passes := estimators.Flow.Estimator().Cost(w, choosingWorkers)
	return exact.CPUNS <= max(affordableNS, affordableRatio*passes.CPUNS)
}

// estimateAuto makes an automatic estimate.
func estimateAuto(ctx context.Context, e *Estimation) error {
	e.variant = Variant{Estimator: estimators.Exact}
	first, err := look(ctx, e)
	if err != nil {
		return err
	}
	exact, why, err := e.choose(&first)
	if err != nil {
		return err
	}
	if exact {
		e.announce(&first.size)
		return e.run(ctx)
	}
	e.Log.Info().Int64("packet_hops", first.size.PacketHops).Msg("link cases: " + why)
	e.variant = Variant{Estimator: estimators.Flow, Passes: MaxPasses}
	e.announce(&first.size)
	return e.throughPasses(ctx, first.unable == nil && first.size.PacketHops <= e.exactLimit())
}

// exactLimit is the number of packet-hops up to which an automatic estimate simulates the whole network.
func (e *Estimation) exactLimit() int64 { return cmp.Or(e.ExactLimit, DefaultExactLimit) }

// choose chooses between a simulation of the whole network and two passes of link cases, and returns the
// reason. It returns an error if neither is possible.
func (e *Estimation) choose(first *firstLook) (exact bool, why string, err error) {
	switch {
	case first.unable != nil && (first.whole || !e.Spec.Switches.IsZero()):
		return false, "", first.unable
	case first.whole:
		return true, "only a simulation of the whole network can estimate this scenario", nil
	case first.unable != nil:
		return false, "the whole network cannot be simulated: " + first.unable.Error(), nil
	case first.size.PacketHops > e.exactLimit():
		return false, fmt.Sprintf("there are more packet-hops than --exact-limit %d", e.exactLimit()), nil
	case affordable(&first.size):
		return true, "exact takes at most a minute of processor time, or at most twice as long as two passes of " +
			"flow", nil
	case first.insufficient:
		return true, "two passes of flow are not accurate enough for this scenario", nil
	}
	return false, "exact takes more than a minute of processor time, and more than twice as long as two passes " +
		"of flow", nil
}

// throughPasses runs the two passes of the variant. If they are not accurate enough and the whole network can
// be simulated, it then simulates the whole network.
func (e *Estimation) throughPasses(ctx context.Context, possible bool) error {
	_, incomplete := e.Records(schema.Slowdowns)
	if incomplete != nil && possible {
		if err := e.exec.Session().WriteState(e.base().StatePath(stepState), e.variant.Stored()); err != nil {
			return err
		}
	}
	if err := e.run(ctx); err != nil {
		return err
	}
	insufficient := false
	warnings, err := e.Files(schema.Warnings)
	if err != nil {
		return err
	}
	err = columns.Each(e.Lake.Read(schema.Warnings, warnings, nil), func(w *struct {
		Kind string `col:"kind"`
	}) error {
		insufficient = insufficient || diagnose.OfLinkCases(w.Kind)
		return nil
	})
	if err != nil {
		return err
	}
	if possible && insufficient {
		if err := e.exec.Session().WriteState(e.base().StatePath(insufficientState), true); err != nil {
			return err
		}
		e.Log.Info().Msg("two passes do not suffice: the whole network is simulated")
		e.variant = Variant{Estimator: estimators.Exact}
		return e.run(ctx)
	}
	return nil
}

// insufficientState is the name of the state file that records, for this version of the method, that two
// passes of a scenario were not accurate enough.
var insufficientState = fmt.Sprintf("two-passes-insufficient-%d.json", MethodVersion)

// A firstLook holds the properties of a workload that are known after routing.
type firstLook struct {
	size         step.WorkloadSize
	unable       error // the reason why the whole network cannot be simulated; nil if it can
	whole        bool  // link cases are refused
	insufficient bool  // two passes of link cases are not accurate enough
}

// look runs the first stages of the plan, up to and including route.
func look(ctx context.Context, e *Estimation) (first firstLook, err error) {
	loads, err := e.route(ctx)
	if err != nil {
		return first, err
	}
	if first.size, err = e.sizeOf(loads); err != nil {
		return first, err
	}
	first.whole = e.Refuse(Variant{Estimator: estimators.Flow}, e.For) != nil
	first.unable = exact.Check(e.method(), loads)
	reasons := diagnose.ReasonsForWholeNetwork(e.method(), loads)
	first.insufficient = len(reasons) > 0
	if !first.insufficient {
		_, err = e.Lake.ReadState(e.base().StatePath(insufficientState), &first.insufficient)
	}
	return first, err
}

// route runs the first stages of the plan, up to and including route, and returns the loads of the links.
func (e *Estimation) route(ctx context.Context) (*route.Loads, error) {
	plan := e.Plan()
	last := plan.Writer(schema.LinkLoads)
	if err := e.exec.Run(ctx, plan[:slices.Index(plan, last)+1]); err != nil {
		return nil, e.forgetUnborn(err)
	}
	return Loads(e)
}

// CanBeExact reports whether an automatic estimate could simulate the whole network. It runs the first
// stages, up to and including route.
func (e *Estimation) CanBeExact(ctx context.Context) (bool, error) {
	first, err := look(ctx, e)
	return err == nil && first.unable == nil && first.size.PacketHops <= e.exactLimit(), err
}

// stepState is the name of the state file that names an intermediate variant: one that a run began before it
// made its final estimate.
const stepState = "step.json"

// MakeAnswer declares the estimate the answer of its scenario, which the views show. It is the last step of a
// run. An intermediate variant is removed unless temporary tables are kept.
func (e *Estimation) MakeAnswer() error {
	session := e.exec.Session()
	answer := e.variant.Stored()
	var step variant.Variant
	if err := session.SetAnswer(e.ID(), answer); err != nil {
		return err
	}
	found, err := e.Lake.ReadState(e.base().StatePath(stepState), &step)
	if err != nil || !found {
		return err
	}
	if step != answer && !e.Keep {
		if err := e.removeStep(step); err != nil {
			return err
		}
	}
	return session.RemoveState(e.base().StatePath(stepState))
}

// removeStep removes a variant of estimator flow. It also removes the variant of the first pass unless that
// is a complete estimate.
func (e *Estimation) removeStep(stored variant.Variant) error {
	v, err := VariantOf(stored)
	if err != nil {
		return err
	}
	remove := []Variant{v}
	before := v.pass(1)
	if v.Passes > 1 && !e.estimated(before) {
		remove = append(remove, before)
	}
	session := e.exec.Session()
	for _, v := range remove {
		p := v.place(e.ID())
		if err := errors.Join(session.Withdraw(p), session.RemoveState(p.StatePath())); err != nil {
			return err
		}
	}
	if err := catalog.Write(e.Lake); err != nil { // no view may name removed files
		return err
	}
	return e.Publish()
}

// LastRun returns the variant of the scenario's last run. ok is false if the lake does not have its estimate
// of every flow.
func (m *Model) LastRun() (v Variant, ok bool) {
	v, err := VariantOf(m.Lake.Answer(m.ID()))
	return v, err == nil && m.estimated(v)
}

// withAnswer completes a variant from the answer of the scenario's last run, if an automatic estimate can
// choose that answer.
func withAnswer(model *Model, like Variant) Variant {
	v, none := VariantOf(model.Lake.Answer(model.ID()))
	chosen := v == (Variant{Estimator: estimators.Exact}) ||
		v == (Variant{Estimator: estimators.Flow, Passes: MaxPasses})
	if like.Auto && none == nil && chosen && model.estimated(v) {
		return v
	}
	return like
}

// Estimated reports whether the lake holds the complete estimate of a variant. With Auto, that is the answer
// of the scenario's last run, if an automatic estimate can choose it.
func (m *Model) Estimated(v Variant) bool {
	v = withAnswer(m, v)
	return !v.Auto && m.estimated(v)
}

// estimated reports whether the lake holds the complete estimate of a variant, which is not Auto.
func (m *Model) estimated(v Variant) bool {
	_, incomplete := ReadOnly(m, v, Settings{}).Records(schema.Slowdowns)
	return incomplete == nil
}
