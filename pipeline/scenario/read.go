package scenario

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"parsimon/datasets"
	"parsimon/schema/names"
	"parsimon/schema/tree"
	"parsimon/schema/units"
	"parsimon/simkernel"
	"parsimon/stages/topology"
	"parsimon/stages/topology/format"
)

// A scenarioReader reads one file into a scenario.
type scenarioReader struct {
	*Scenario
	dir     string // directory to which paths are relative
	shipped bool   // there are no files beside it
}

// open parses a scenario file, or a shipped scenario by name (datasets.Scenarios). Paths in the file are
// relative to dir. dir is "" for a shipped scenario, which may not name files.
func open(path string) (top tree.Field, dir string, err error) {
	info, err := os.Stat(path)
	folder := err == nil && info.IsDir() // which may be a lake that has the scenario's name
	if folder || errors.Is(err, fs.ErrNotExist) {
		shipped, e := datasets.Read(datasets.Scenarios, path)
		if e == nil {
			top, err = parseYAML(path+" (shipped)", shipped)
			return top, "", err
		}
		ships := strings.Join(names.Nearest(path, datasets.Names(datasets.Scenarios), 10), ", ") + ", …"
		if folder {
			return top, "", fmt.Errorf("scenario %s: is a directory, and no scenario of that name ships (%s)", path,
				ships)
		}
		if slices.Contains(datasets.Names(datasets.Topologies), path) {
			return top, "", fmt.Errorf("scenario %s: is a network, which has no flows: give it with --topology, and "+
				"--flows; or as topology: {name: %s} of a scenario file with a workload", path, path)
		}
		return top, "", fmt.Errorf("scenario %s: %w (%s)", path, ErrNoFile, ships)
	}
	data, err := topology.ReadFile(path)
	if err != nil {
		return top, "", fmt.Errorf("scenario: %w", err)
	}
	top, err = parseYAML(path, data)
	return top, filepath.Dir(path), err
}

// parseYAML parses a file with one document, which must be a mapping.
func parseYAML(file string, data []byte) (tree.Field, error) {
	if len(data) > 1<<20 {
		return tree.Field{}, &tree.FieldError{File: file, Line: 1, Err: errors.New("a scenario file of more than " +
			"1 MiB")}
	}
	return tree.YAML(file, data)
}

// read reads a scenario. Each key has a function that reads it. An unknown key, a repeated key and a value
// out of range are errors with their line (tree.FieldError). Values that depend on the topology, such as
// names of hosts and racks of a matrix, are checked when the network or the workload is built.
func read(top tree.Field, dir string) (*Scenario, error) {
	r := &scenarioReader{newScenario(), dir, dir == ""}
	r.Name = baseName(strings.TrimSuffix(top.File, " (shipped)"))
	err := top.Object(r.keys())
	switch {
	case err != nil:
		return nil, err
	case top.Value.Get("topology") == nil:
		return nil, top.Failf("has no topology")
	case top.Value.Get("workload") == nil:
		return nil, top.Failf("has no workload")
	}
	return r.Scenario, nil
}

func (r *scenarioReader) keys() tree.Keys {
	return tree.Keys{
		"name":      tree.ReadText(&r.Name),
		"seed":      tree.ReadParsed(&r.Seed, units.ParseSeed),
		"topology":  r.readTopology,
		"workload":  r.readWorkload,
		"transport": r.readTransport,
		"switches":  r.readSwitches,
		"fail":      r.readTexts(&r.Fail),
		"balance":   r.readBalance,
		"routes": func(f tree.Field) (err error) {
			r.PathMoves.Routes, err = r.path(f)
			r.at[r.PathMoves.Routes] = f
			return err
		},
		"flowlet_gap":       r.readMove(&r.PathMoves.Gap),
		"converge":          r.readMove(&r.PathMoves.Converge),
		"hash":              r.readMove(&r.PathMoves.Hash),
		"local_repair":      r.readMove(&r.PathMoves.Repair),
		"receivers":         r.readMove(&r.PathMoves.Receivers),
		"weights":           r.readTexts(&r.PathMoves.Weights),
		"events":            r.readTexts(&r.PathMoves.Events),
		"traffic":           r.readTraffic,
		"allow_unreachable": tree.ReadBool(&r.AllowUnreachable),
		"max_rejects": tree.ReadShare(&r.MaxRejects, "0 to 1",
			func(x float64) bool { return x >= 0 && x <= 1 }),
	}
}

// path resolves a path in the file. If there are two, separated by a comma, it resolves each of them.
func (r *scenarioReader) path(f tree.Field) (string, error) {
	text, err := f.Scalar()
	if err != nil {
		return "", err
	}
	if r.shipped {
		return "", f.Failf("is %q, and a shipped scenario has no other files", text)
	}
	if text == "" {
		return "", f.Failf("is empty")
	}
	parts := strings.Split(text, ",")
	for i, p := range parts {
		if !filepath.IsAbs(p) {
			parts[i] = filepath.Join(r.dir, p)
		}
	}
	return strings.Join(parts, ","), nil
}

// readTopology reads a shipped topology by name, a file, or a network that the scenario file describes. The
// options for topology files (format.Options) are allowed only if the topology is a file.
func (r *scenarioReader) readTopology(f tree.Field) error {
	named := 0
	var generated []*format.Generated
	keys := format.GeneratedKeys(&generated, true)
	maps.Copy(keys, r.topologyOptionKeys())
	keys["name"] = func(f tree.Field) error {
		named++
		data, err := datasets.Read(datasets.Topologies, f.Value.Text)
		if err != nil {
			return f.Failf("is %q, and these ship: %s", f.Value.Text,
				strings.Join(datasets.Names(datasets.Topologies), ", "))
		}
		return r.parseTopologyFile(f.Value.Text+" (shipped)", data)
	}
	keys["file"] = func(f tree.Field) error {
		named++
		path, err := r.path(f)
		if err != nil {
			return err
		}
		return r.readTopologyFile(path)
	}
	err := f.Object(keys)
	if len(generated) > 0 {
		r.topology.generated = generated[0]
	}
	switch options := r.topology.options; {
	case err != nil:
		return err
	case named+len(generated) != 1:
		return f.Failf("needs one of name, file, clos, fabric and graph")
	case r.topology.file == "" && !reflect.DeepEqual(options, format.Options{Delays: options.Delays}):
		return f.Failf("host_patterns, nodes, exclude, speeds, default_speed, default_delay and repair go with a " +
			"file that is not clos, fabric or graph")
	}
	return nil
}

// parseTopologyFile reads a separate topology file, whose only key is clos, fabric or graph.
func (s *Scenario) parseTopologyFile(file string, data []byte) error {
	top, err := parseYAML(file, data)
	if err != nil {
		return err
	}
	var generated []*format.Generated
	if err = top.Object(format.GeneratedKeys(&generated, true)); err != nil {
		return err
	}
	if len(generated) != 1 {
		return top.Failf("needs one of clos, fabric and graph")
	}
	s.topology.generated = generated[0]
	return nil
}

// readWorkload reads key workload: either a flow file, or services and jobs from which flows are generated.
// The load is the expected load of the most loaded link. Exactly one of duration and flows_count ends the
// workload.
func (r *scenarioReader) readWorkload(f tree.Field) error {
	w := &r.workload
	err := f.Object(tree.Keys{
		"flows": func(f tree.Field) (err error) {
			if w.flowFile, err = r.path(f); err == nil {
				_, err = checkFile(w.flowFile)
			}
			return err
		},
		"services": r.readServices,
		"jobs":     r.readJobs,
		"only": func(f tree.Field) error {
			w.only = nil
			return tree.ReadList(&w.only, tree.Verbatim)(f)
		},
		"max_load": tree.ReadShare(&w.maxLoad, "above 0 and below 1",
			func(x float64) bool { return x > 0 && x < 1 }),
		"duration": tree.ReadQuantity(&w.durationNS, units.Duration, 1, maxDurationNS),
		"flows_count": tree.ReadParsed(&w.flowsCount, func(text string) (int64, error) {
			v, err := units.Parse(text, []units.Unit{{Suffix: "flows", Factor: 1}})
			if err == nil && (v < 1 || v > maxFlows) {
				err = fmt.Errorf("is %s, must be 1 to 10^12", text)
			}
			return v, err
		}),
	})
	notFlows := slices.IndexFunc(f.Value.Keys, func(key string) bool { return key != "flows" })
	noJob := slices.IndexFunc(w.only, func(name string) bool {
		return !slices.ContainsFunc(w.jobs, func(j jobSpec) bool { return j.Name == name })
	})
	sameAsService := func(j jobSpec) bool { return r.service(j.Name) != nil }
	switch {
	case err != nil:
		return err
	case r.traced() && notFlows >= 0:
		return f.Failf("has a flow file, and so workload.%s has no meaning", f.Value.Keys[notFlows])
	case w.flowFile != "":
		return nil
	case len(w.services)+len(w.jobs) == 0:
		return f.Failf("needs services, jobs, or flows: FILE")
	case slices.ContainsFunc(w.jobs, sameAsService):
		return w.jobs[slices.IndexFunc(w.jobs, sameAsService)].at.Failf("is named like a service")
	case noJob >= 0:
		return f.Of("only").Failf("no job is named %q", w.only[noJob])
	case len(w.services) == 0 && w.maxLoad > 0 || len(w.services) == 0 && w.durationNS+w.flowsCount > 0:
		return f.Failf("has no services, and so max_load, duration and flows_count have no meaning")
	case len(w.services) == 0:
		return nil
	case w.maxLoad == 0:
		return f.Failf("needs max_load")
	case (w.durationNS > 0) == (w.flowsCount > 0):
		return f.Failf("needs one of duration and flows_count")
	}
	return nil
}

// readMove reads one text of PathMoves, and readTexts reads a list of them. They are checked when the network
// is built.
func (r *scenarioReader) readMove(to *string) func(tree.Field) error {
	return func(f tree.Field) (err error) {
		*to, err = f.Scalar()
		r.at[*to] = f
		return err
	}
}

// readBalance reads one balance for all switches, or an object SWITCHES: BALANCE.
func (r *scenarioReader) readBalance(f tree.Field) error {
	if f.Value.Kind != tree.Object {
		return r.readMove(&r.PathMoves.Balance)(f)
	}
	var rules []string
	for i, which := range f.Value.Keys {
		rules = append(rules, which+"="+f.Value.Items[i].Scalar())
	}
	r.PathMoves.Balance = strings.Join(rules, ",")
	r.at[r.PathMoves.Balance] = f
	return nil
}

func (r *scenarioReader) readTexts(to *[]string) func(tree.Field) error {
	return func(f tree.Field) error {
		return f.Each(func(item tree.Field) error {
			text, err := item.Scalar()
			*to = append(*to, text)
			r.at[text] = item
			return err
		})
	}
}

// A topologySpec is a file or, if the file is empty, a network that the scenario file describes.
type topologySpec struct {
	file      string
	options   format.Options // of the file; delays go with both
	generated *format.Generated
}

// setTopology sets the topology: a file, or a shipped one by name.
func (s *Scenario) setTopology(name string) error {
	_, err := format.Files(name)
	if err == nil {
		s.topology.file = name
		return nil
	}
	shipped, e := datasets.Read(datasets.Topologies, name)
	if e != nil {
		return fmt.Errorf("%w; shipped topologies: %s", err,
			strings.Join(datasets.Names(datasets.Topologies), ", "))
	}
	return s.parseTopologyFile(name+" (shipped)", shipped)
}

// SetTopologyOptions sets what a topology file does not state: hosts, devices to exclude, speeds, delays and
// the faults to repair. For networks that are not files, only delays are allowed.
func (s *Scenario) SetTopologyOptions(o format.Options) {
	s.topology.options = o
	s.loaded = nil
}

// TopologyOptions returns the options for the topology that were set so far, and whether the topology is a
// file.
func (s *Scenario) TopologyOptions() (o format.Options, isFile bool) {
	return s.topology.options, s.topology.file != ""
}

func (r *scenarioReader) readTopologyFile(path string) error {
	if _, err := format.Files(path); err != nil {
		return err
	}
	if format.IsGenerated(path) {
		data, err := topology.ReadFile(path)
		if err != nil {
			return err
		}
		return r.parseTopologyFile(path, data)
	}
	r.topology.file = path
	return nil
}

// topologyOptionKeys read the keys of the options for topology files.
func (r *scenarioReader) topologyOptionKeys() tree.Keys {
	o := &r.topology.options
	return tree.Keys{
		"host_patterns": tree.ReadList(&o.HostPatterns, tree.Verbatim),
		"nodes": func(f tree.Field) (err error) {
			o.NodeList, err = r.path(f)
			return err
		},
		"speeds":        tree.ReadList(&o.Speeds, format.ParseSpeedRule),
		"exclude":       tree.ReadList(&o.Exclude, tree.Verbatim),
		"default_speed": tree.ReadBounded(&o.DefaultSpeedBps, topology.ParseSpeed, simkernel.MinBps, 1e15, "bps"),
		"default_delay": tree.ReadParsed(&o.DefaultDelayNS, topology.ParseDelay),
		"delays":        tree.ReadList(&o.Delays, topology.ParseDelayRule),
		"repair":        tree.ReadList(&o.Repair, format.ParseRepair),
	}
}

// IntactNetwork builds the topology as it is before any failure.
func (s *Scenario) IntactNetwork() (*topology.Network, error) {
	if s.topology.file != "" {
		if s.loaded == nil {
			l, err := s.load()
			if err != nil {
				return nil, err
			}
			if len(l.Settings) > 0 && l.Network != nil { // of each kind of value the one that most switches have
				s.takeMarking(l)
				s.takeBuffer(l)
				s.takeQueues(l)
			}
		}
		n, err := s.loaded.Usable()
		if err != nil {
			return nil, err
		}
		return n.Clone(), nil
	}
	n, err := topology.NewNetwork(s.topology.generated.Nodes, s.topology.generated.Cables)
	if err == nil {
		s.delayNotes, err = n.SetDelays(s.topology.options.Delays)
	}
	return n, err
}

// TopologyNotes lists the inferences from the topology file, the defaults that apply, and the repairs. It is
// empty until the network has been built.
func (s *Scenario) TopologyNotes() []string {
	if s.loaded == nil {
		return s.delayNotes
	}
	return slices.Concat(s.loaded.Notes, s.switchNotes)
}

// canonicalOptions are the fields of format.Options that change a network. Delays are listed by cable
// instead.
type canonicalOptions struct {
	HostPatterns    []string             `json:"host_patterns,omitempty"`
	NodeList        string               `json:"node_list,omitempty"` // digest
	Exclude         []string             `json:"exclude,omitempty"`
	Speeds          []format.SpeedRule   `json:"speeds,omitempty"`
	DefaultSpeedBps int64                `json:"default_speed_bps,omitempty"`
	DefaultDelayNS  int64                `json:"default_delay_ns,omitempty"`
	Delays          []topology.DelayRule `json:"-"`
	Repair          []topology.FaultKind `json:"repair,omitempty"`
}

func (s *Scenario) canonicalOptions() (json.RawMessage, error) {
	c := canonicalOptions(s.topology.options)
	c.Repair = slices.Sorted(slices.Values(c.Repair))
	if c.DefaultDelayNS == format.DefaultDelayNS {
		c.DefaultDelayNS = 0
	}
	if c.NodeList != "" {
		c.NodeList = s.loadedDigests[len(s.loadedDigests)-1]
	}
	b, err := json.Marshal(c)
	if string(b) == "{}" {
		return nil, err
	}
	return b, err
}
