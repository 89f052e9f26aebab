package scenario

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"parsimon/datasets"
	"parsimon/schema/tree"
	"parsimon/stages/traffic"
	"parsimon/stages/workload"
)

// Traffic returns the rules for the connections of an ingested workload, by service.
func (s *Scenario) Traffic() traffic.Rules { return s.traffic }

// A Part is the part of an ingested workload that a scenario has.
type Part struct {
	Digests      []string // of everything that the flows come from, as in Ingested
	FromNS, ToNS int64    // flows start from FromNS up to, but not including, ToNS
	Profiles     bool     // the workload has the bytes of connections over time
	Changed      bool     // some flows are not those of the workload, because a change scaled or moved them
}

// PartOf returns the part of a workload that a scenario with the given canonical form has. ok is false if its
// flows do not come from a workload.
func PartOf(canonical json.RawMessage) (p Part, ok bool, err error) {
	var c canonicalScenario
	if err := json.Unmarshal(canonical, &c); err != nil {
		return p, false, fmt.Errorf("canonical form of a scenario: %w", err)
	}
	w := c.Workload
	p = Part{Digests: w.Ingested, FromNS: w.FromNS, ToNS: w.ToNS, Profiles: w.Profiles}
	if p.ToNS == 0 {
		p.ToNS = math.MaxInt64
	}
	p.Changed = c.Changes != nil && (len(c.Changes.Flows) > 0 || c.Changes.Starts != "")
	return p, len(w.Ingested) > 0, nil
}

// readTraffic reads key traffic, an object of SERVICE: MODEL. It replaces the rules of these services only.
func (r *scenarioReader) readTraffic(f tree.Field) error {
	if !f.Is(tree.Object) {
		return f.Failf("is %s, want services with %s", f.Value, traffic.RuleForms)
	}
	rules := maps.Clone(r.traffic)
	if rules == nil {
		rules = traffic.Rules{}
	}
	var all error
	for i, service := range f.Value.Keys {
		rule, err := traffic.ParseRule(f.Value.Items[i].Scalar(), messageSizes)
		if err != nil {
			all = errors.Join(all, f.Of(service).Fail(err))
		}
		rules[service] = rule
	}
	r.traffic = rules
	return all
}

// messageSizes returns a distribution that ships.
func messageSizes(name string) (*workload.SizeCDF, error) {
	data, err := datasets.Read(datasets.Sizes, name)
	if err != nil {
		return nil, fmt.Errorf("size of messages %q: want a size such as 16KB, or %s", name,
			strings.Join(datasets.Names(datasets.Sizes), ", "))
	}
	return workload.ParseSizeCDF(name, data)
}

// SetTraffic adds rules SERVICE=MODEL.
func (s *Scenario) SetTraffic(texts []string) error {
	models := map[string]string{}
	for _, text := range texts {
		sizes, burst := traffic.CutBurst(text)
		service, model, err := cutValue(sizes) // the name of a service may have an equals sign
		if err != nil {
			return fmt.Errorf("%q: want SERVICE=MODEL, such as db=messages:16KB", text)
		}
		if _, given := models[service]; given {
			return fmt.Errorf("service %q has two models", service)
		}
		models[service] = model + burst
	}
	return s.SetModels(models)
}

// SetModels adds rules by service. Later rules of the same services replace them.
func (s *Scenario) SetModels(models map[string]string) error {
	rules, err := ParseModels(models)
	if err != nil || len(rules) == 0 {
		return err
	}
	all := maps.Clone(s.traffic)
	if all == nil {
		all = traffic.Rules{}
	}
	maps.Copy(all, rules)
	s.traffic = all
	return nil
}

// ParseModels parses rules by service.
func ParseModels(models map[string]string) (traffic.Rules, error) {
	rules := traffic.Rules{}
	for _, service := range slices.Sorted(maps.Keys(models)) {
		rule, err := traffic.ParseRule(models[service], messageSizes)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", service+"="+models[service], err)
		}
		rules[service] = rule
	}
	return rules, nil
}

// canonicalTraffic returns the rules as texts that identify the sizes of messages.
func (s *Scenario) canonicalTraffic() (map[string]string, error) {
	w := s.workload.ingested
	switch {
	case len(s.traffic) == 0:
		return nil, nil
	case w == nil:
		return nil, errors.New("traffic: applies to a workload that parsimon ingest has made of a flow log")
	case !w.Profiles:
		return nil, fmt.Errorf("traffic: workload %s has no bytes over time: an older version ingested it, or its "+
			"rows are whole flows; ingest its flow logs again", w.ID)
	}
	texts := map[string]string{}
	for service, rule := range s.traffic {
		texts[service] = rule.Canonical(digestSizes)
	}
	return texts, nil
}
