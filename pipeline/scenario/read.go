package scenario

import (
	"fmt"
	"maps"
	"path/filepath"
	"strings"

	"parsimon/datasets"
	"parsimon/pipeline/units"
	"parsimon/simkernel"
	"parsimon/stages/topology"
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
	r := &scenarioReader{newScenario(), dir, dir == ""}
	r.Name = baseName(strings.TrimSuffix(file, " (shipped)"))
	var topology, workload bool
	err = top.object(map[string]func(field) error{
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

// readTopology reads one of four: a shipped topology by name, a file, a Clos network by its numbers, or a graph of
// named nodes and cables. The options that complete a file (format.Options) go with a file only.
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
		"clos": func(f field) error {
			ways++
			return r.readClos(f)
		},
		"graph": func(f field) error {
			ways++
			return r.readGraph(f)
		},
	})
	err := f.object(keys)
	switch options := r.topology.options; {
	case err != nil:
		return err
	case ways != 1:
		return f.failf("needs one of name, file, clos and graph")
	case r.topology.file == "" && (len(options.HostPatterns)+len(options.Speeds)+len(options.Repair) > 0 ||
		options.NodeList != "" || options.DefaultDelayNS != 0):
		return f.failf("host_patterns, nodes, speeds, default_delay and repair go with a file that is not clos or graph")
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
	count := func(read func(field) error) func(field) error {
		return func(f field) error {
			ways++
			return read(f)
		}
	}
	err = top.object(map[string]func(field) error{"clos": count(s.readClos), "graph": count(s.readGraph)})
	if err == nil && ways != 1 {
		return top.failf("needs one of clos and graph")
	}
	return err
}

// readClos reads a three-tier network: spines_per_plane, or oversubscription, from which it follows.
func (s *Scenario) readClos(f field) error {
	c := topology.ClosSpec{}
	const most = 1 << 22
	over := func(x float64) bool { return x > 0 && x <= most }
	err := f.object(map[string]func(field) error{
		"pods":             readInt(&c.Pods, 1, most),
		"racks_per_pod":    readInt(&c.RacksPerPod, 1, most),
		"hosts_per_rack":   readInt(&c.HostsPerRack, 1, most),
		"planes":           readInt(&c.Planes, 1, most),
		"spines_per_plane": readInt(&c.SpinesPerPlane, 1, most),
		"oversubscription": readFloat(&c.Oversubscription, false, "a number above 0", over),
		"host_bandwidth":   readSpeed(&c.HostBps, simkernel.MinBps, 1e15),
		"fabric_bandwidth": readSpeed(&c.FabricBps, simkernel.MinBps, 1e15),
		"host_delay":       readQuantity(&c.HostDelayNS, units.Duration, 0, 1e12),
		"fabric_delay":     readQuantity(&c.FabricDelayNS, units.Duration, 0, 1e12),
	})
	if err != nil {
		return err
	}
	if c.HostBps == 0 || c.FabricBps == 0 {
		return f.failf("needs host_bandwidth and fabric_bandwidth")
	}
	if s.topology.clos, err = c.Resolved(); err != nil {
		return f.fail(err)
	}
	return nil
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
		if !strings.Contains(cable, ":") {
			return item.failf("is %q, want the two ends of a cable as A:B", cable)
		}
		r.Fail = append(r.Fail, cable)
		r.failAt[cable] = item
	}
	return nil
}
