package scenario

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"parsimon/datasets"
	"parsimon/schema/tree"
	"parsimon/simkernel"
	"parsimon/stages/topology"
	"parsimon/stages/topology/format"
)

// A topologySpec is a file or, if that is empty, a network that the scenario file describes.
type topologySpec struct {
	file      string
	options   format.Options // of the file; delays go with both
	generated *format.Generated
}

// setTopology takes a topology file, or one that ships, by its name.
func (s *Scenario) setTopology(name string) error {
	_, err := format.Files(name)
	if err == nil {
		s.topology.file = name
		return nil
	}
	shipped, e := datasets.Read(datasets.Topologies, name)
	if e != nil {
		return fmt.Errorf("%w; shipped topologies: %s", err, strings.Join(datasets.Names(datasets.Topologies), ", "))
	}
	return s.parseTopologyFile(name+" (shipped)", shipped)
}

// SetTopologyOptions adds what a topology file does not say: hosts, what to leave out, speeds, delays and the faults to
// repair. Only delays are for networks that are no file.
func (s *Scenario) SetTopologyOptions(o format.Options) {
	s.topology.options, s.loaded = o, nil
}

// TopologyOptions are what was added to the topology so far, and whether it is a file.
func (s *Scenario) TopologyOptions() (o format.Options, isFile bool) {
	return s.topology.options, s.topology.file != ""
}

func (r *scenarioReader) readTopologyFile(path string) error {
	if _, err := format.Files(path); err != nil {
		return err
	}
	if ext := strings.ToLower(filepath.Ext(path)); ext == ".yaml" || ext == ".yml" {
		data, err := topology.ReadFile(path)
		if err != nil {
			return err
		}
		return r.parseTopologyFile(path, data)
	}
	r.topology.file = path
	return nil
}

// topologyOptionKeys read the keys that say what a topology file does not.
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

// IntactNetwork builds the topology as it is before anything fails.
func (s *Scenario) IntactNetwork() (*topology.Network, error) {
	if s.topology.file != "" {
		if s.loaded == nil {
			l, err := format.Load(s.topology.file, s.topology.options)
			if err != nil {
				return nil, err
			}
			s.loaded = l
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
	n, err := s.topology.generated.Network()
	if err == nil {
		s.delaysSaid, err = n.SetDelays(s.topology.options.Delays)
	}
	return n, err
}

// TopologyNotes say what was inferred of the topology file, which defaults apply and what was repaired. They are empty
// until the network was built.
func (s *Scenario) TopologyNotes() []string {
	if s.loaded == nil {
		return s.delaysSaid
	}
	return slices.Concat(s.loaded.Notes, s.switchNotes)
}

// canonicalOptions are the fields of format.Options that change a network, as the canonical form has them; delays are
// there by cable.
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
	var err error
	if c.NodeList != "" {
		if c.NodeList, err = s.FileDigest(c.NodeList); err != nil {
			return nil, err
		}
	}
	b, err := json.Marshal(c)
	if string(b) == "{}" {
		return nil, err
	}
	return b, err
}
