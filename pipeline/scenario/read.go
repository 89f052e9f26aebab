package scenario

import (
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"strings"

	"parsimon/datasets"
	"parsimon/schema/units"
	"parsimon/stages/topology/format"
)

// A scenarioReader reads one file into a scenario.
type scenarioReader struct {
	*Scenario
	dir     string // what paths are relative to
	shipped bool   // there are no files beside it
}

// parse reads a scenario file of one mapping. dir is what paths in it are relative to; "" for a shipped scenario, which
// may name no files. Each key has a function that reads it; an unknown key, a key given twice, and a value out of its
// range are errors with the line (FieldError). What can only be checked against the topology (names of hosts, racks of
// a matrix) is checked when the network or the workload is built.
func parse(file, dir string, data []byte) (*Scenario, error) {
	top, err := parseYAML(file, data)
	if err != nil {
		return nil, err
	}
	return read(top, dir)
}

// read is parse of a file that was parsed as YAML.
func read(top field, dir string) (*Scenario, error) {
	r := &scenarioReader{newScenario(), dir, dir == ""}
	r.Name = baseName(strings.TrimSuffix(top.file, " (shipped)"))
	var topology, workload bool
	err := top.object(map[string]func(field) error{
		"name":              readText(&r.Name),
		"seed":              readParsed(&r.Seed, units.ParseSeed),
		"topology":          func(f field) error { topology = true; return r.readTopology(f) },
		"workload":          func(f field) error { workload = true; return r.readWorkload(f) },
		"transport":         r.readTransport,
		"fail":              r.readFail,
		"allow_unreachable": readBool(&r.AllowUnreachable),
		"max_rejects":       readFloat(&r.MaxRejects, true, "0 to 1", func(x float64) bool { return x >= 0 && x <= 1 }),
	})
	switch {
	case err != nil:
		return nil, err
	case !topology:
		return nil, top.failf("has no topology")
	case !workload:
		return nil, top.failf("has no workload")
	}
	return r.Scenario, nil
}

// path resolves a path of the file; each part of a pair with a comma by itself.
func (r *scenarioReader) path(f field) (string, error) {
	text, err := f.text()
	if err != nil {
		return "", err
	}
	if r.shipped {
		return "", f.failf("is %q, and a shipped scenario has no files of its own", text)
	}
	if text == "" {
		return "", f.failf("is empty")
	}
	parts := strings.Split(text, ",")
	for i, p := range parts {
		if !filepath.IsAbs(p) {
			parts[i] = filepath.Join(r.dir, p)
		}
	}
	return strings.Join(parts, ","), nil
}

// readTopology reads a shipped topology by name, a file, or a network under one of format.GeneratedKeys. The options
// that complete a file (format.Options) go with a file only.
func (r *scenarioReader) readTopology(f field) error {
	ways := 0
	keys := r.topologyOptionKeys()
	maps.Copy(keys, map[string]func(field) error{
		"name": func(f field) error {
			ways++
			name, err := f.text()
			if err != nil {
				return err
			}
			data, err := datasets.Read(datasets.Topologies, name)
			if err != nil {
				return f.failf("is %q, and these ship: %s", name, strings.Join(datasets.Names(datasets.Topologies), ", "))
			}
			return r.parseTopologyFile(name+" (shipped)", data)
		},
		"file": func(f field) error {
			ways++
			path, err := r.path(f)
			if err != nil {
				return err
			}
			return r.readTopologyFile(path)
		},
	})
	for _, key := range format.GeneratedKeys() {
		keys[key] = func(f field) error {
			ways++
			return r.readGenerated(f)
		}
	}
	err := f.object(keys)
	switch options := r.topology.options; {
	case err != nil:
		return err
	case ways != 1:
		return f.failf("needs one of name, file, %s", listAnd(format.GeneratedKeys()))
	case r.topology.file == "" && !reflect.DeepEqual(options, format.Options{Delays: options.Delays}):
		return f.failf("host_patterns, nodes, exclude, speeds, default_speed, default_delay and repair go with a file that "+
			"is not %s", strings.Join(format.GeneratedKeys(), " or "))
	}
	return nil
}

// parseTopologyFile reads a topology file of its own: the key clos or graph and no other.
func (s *Scenario) parseTopologyFile(file string, data []byte) error {
	top, err := parseYAML(file, data)
	if err != nil {
		return err
	}
	ways := 0
	keys := map[string]func(field) error{}
	for _, key := range format.GeneratedKeys() {
		keys[key] = func(f field) error {
			ways++
			return s.readGenerated(f)
		}
	}
	err = top.object(keys)
	if err == nil && ways != 1 {
		return top.failf("needs one of %s", listAnd(format.GeneratedKeys()))
	}
	return err
}

// listAnd writes "a, b and c".
func listAnd(names []string) string {
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// readWorkload reads key workload: a flow file, or what to generate flows from, but not both. The load is the expected
// one of the most loaded link; exactly one of duration and flows_count says when to stop.
func (r *scenarioReader) readWorkload(f field) error {
	w := &r.workload
	var generated []string // keys that only generated workloads have
	only := func(read func(field) error) func(field) error {
		return func(f field) error {
			generated = append(generated, f.key)
			return read(f)
		}
	}
	err := f.object(map[string]func(field) error{
		"flows": func(f field) (err error) {
			if w.flowFile, err = r.path(f); err != nil {
				return err
			}
			return checkFile(w.flowFile)
		},
		"services": only(r.readServices),
		"vnets":    only(r.readVNets),
		"max_load": only(readFloat(&w.maxLoad, true, "above 0 and below 1", loadInRange)),
		"duration": only(readQuantity(&w.durationNS, units.Duration, 1, maxDurationNS)),
		"flows_count": only(readParsed(&w.flowsCount, func(text string) (int64, error) {
			v, err := units.Parse(text, []units.Unit{{Suffix: "flows", Factor: 1}})
			if err == nil && (v < 1 || v > maxFlows) {
				err = fmt.Errorf("is %s, must be 1 to 10^12", text)
			}
			return v, err
		})),
	})
	switch {
	case err != nil:
		return err
	case w.flowFile != "" && len(generated) > 0:
		return f.failf("has a flow file, and so %s has no meaning", generated[0])
	case w.flowFile != "":
		return nil
	case r.unusedVNet() != nil:
		return r.unusedVNet().at.failf("no service is in virtual network %q", r.unusedVNet().name)
	case len(w.services) == 0:
		return f.failf("needs services, or flows: FILE")
	case w.maxLoad == 0:
		return f.failf("needs max_load")
	case (w.durationNS > 0) == (w.flowsCount > 0):
		return f.failf("needs one of duration and flows_count")
	}
	return nil
}

func loadInRange(x float64) bool { return x > 0 && x < 1 }

func (r *scenarioReader) readFail(f field) error {
	list, err := f.list()
	if err != nil {
		return err
	}
	r.failAt = map[string]field{}
	for _, item := range list {
		var cable string
		if err := readText(&cable)(item); err != nil {
			return err
		}
		r.Fail = append(r.Fail, cable)
		r.failAt[cable] = item
	}
	return nil
}
