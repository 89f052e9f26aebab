package scenario

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"parsimon/schema/names"
	"parsimon/simkernel"
	"parsimon/simkernel/network"
	"parsimon/stages/moves"
	"parsimon/stages/step"
	"parsimon/stages/topology"
	"parsimon/stages/topology/format"
	"parsimon/stages/workload"
	"parsimon/stages/workload/jobs"
)

// canonicalVersion must change whenever the same scenario would yield other rows, because flows are drawn,
// paths are chosen or links are simulated differently.
const canonicalVersion = 1

// The canonical form identifies files by their content, not by their path, and has one form for each meaning:
// failed cables by node ids in ascending order, spines instead of oversubscription, and all defaults. It
// omits settings that do not affect rows: the scenario's name, and allowances.
type canonicalScenario struct {
	Version   int               `json:"version"`
	Seed      uint64            `json:"seed"`
	Topology  canonicalTopology `json:"topology"`
	Fail      [][2]int32        `json:"fail"`
	Workload  canonicalWorkload `json:"workload"`
	Transport json.RawMessage   `json:"transport"` // canonicalTransport
	// Keys that were added later are omitted if they have no effect, so that older scenarios keep their ids.
	LoadOf   string               `json:"load_of,omitempty"` // "intact": the load was set before the failures
	Changes  *canonicalChanges    `json:"changes,omitempty"`
	Switches network.BufferParams `json:"switches,omitzero"`
	Classes  []step.TrafficClass  `json:"classes,omitempty"`
	Moves    *moves.Moves         `json:"moves,omitempty"`
}

type canonicalTopology struct {
	Clos   *topology.ClosSpec   `json:"clos,omitempty"`
	Fabric *topology.FabricSpec `json:"fabric,omitempty"`
	Graph  *canonicalGraph      `json:"graph,omitempty"`
	Files  []string             `json:"files,omitempty"`
	// Keys that were added later are omitted if they have no effect, so that older scenarios keep their ids.
	Options json.RawMessage `json:"options,omitempty"`
}

// A canonicalGraph has the nodes in order of their ids, and the cables, whose order determines link ids.
type canonicalGraph struct {
	Hosts    []string   `json:"hosts"`
	Switches []string   `json:"switches"`
	Cables   [][4]int64 `json:"cables"` // ends, bps, ns
}

type canonicalWorkload struct {
	Flows      []string           `json:"flows,omitempty"`
	Ingested   []string           `json:"ingested,omitempty"` // the sources of a workload of the lake
	FromNS     int64              `json:"from_ns,omitempty"`  // of an ingested workload
	ToNS       int64              `json:"to_ns,omitempty"`
	MaxLoad    float64            `json:"max_load,omitempty"`
	DurationNS int64              `json:"duration_ns,omitempty"`
	FlowsCount int64              `json:"flows_count,omitempty"`
	Services   []canonicalService `json:"services,omitempty"`
	Jobs       []jobs.Job         `json:"jobs,omitempty"`
	// Of an ingested workload: whether it has bytes over time, and the rules for its connections by service.
	Profiles bool              `json:"profiles,omitempty"`
	Traffic  map[string]string `json:"traffic,omitempty"`
}

type canonicalService struct {
	Name   string  `json:"name"`
	VNet   string  `json:"vnet"`
	Matrix string  `json:"matrix"`
	Sizes  string  `json:"sizes"`
	Sigma  float64 `json:"sigma"`
	Share  float64 `json:"share"`
	Racks  []int   `json:"racks,omitempty"`
	// Keys that were added later are omitted if they have no effect, so that older scenarios keep their ids.
	Pairs   [][2]int32 `json:"pairs,omitempty"`
	Poisson bool       `json:"poisson,omitempty"`
	TwinOf  string     `json:"twin_of,omitempty"`
	Hosts   []int32    `json:"hosts,omitempty"`
	DSCP    int16      `json:"dscp,omitempty"`
}

// A Settled is a scenario in the form in which it is simulated.
type Settled struct {
	Network *topology.Network `json:"-"` // with what fails down
	// Canonical has everything that the results depend on, in JSON. Scenarios with the same meaning have the
	// same JSON.
	Canonical json.RawMessage      `json:"canonical"`
	Params    simkernel.Params     `json:"params"`
	Switches  network.BufferParams `json:"switches,omitzero"` // zero: unlimited
	Classes   []step.TrafficClass  `json:"classes,omitempty"` // the queues of ports; nil: one
	Moves     *moves.Moves         `json:"moves,omitempty"`   // how paths move; nil: each flow has one, by ECMP
}

// Settle reads the files that the scenario refers to.
func (s *Scenario) Settle() (*Settled, error) {
	n, failures, err := s.failedNetwork()
	if err != nil {
		return nil, err
	}
	c := canonicalScenario{Version: canonicalVersion, Seed: s.Seed, Fail: [][2]int32{},
		Changes: &canonicalChanges{}}
	for _, f := range failures {
		c.failed(f)
	}
	var wrong [7]error // the first counts
	c.Changes.Delays, wrong[0] = s.canonicalDelays(n)
	c.Switches, wrong[1] = s.Buffers()
	c.Classes, wrong[2] = s.Classes()
	c.Topology, wrong[3] = s.canonicalTopology()
	c.Workload, wrong[4] = s.canonicalWorkload(n)
	c.Moves, wrong[5] = s.Moves(n)
	c.Transport, wrong[6] = json.Marshal(canonicalTransport(s.params))
	if err := cmp.Or(wrong[:]...); err != nil {
		return nil, err
	}
	return c.settled(n, s.Params())
}

// canonicalTopology identifies files by the digest of their content, in the order in which the topology lists
// them.
func (s *Scenario) canonicalTopology() (c canonicalTopology, err error) {
	g := s.topology.generated
	if g != nil {
		c.Clos = g.Clos
		c.Fabric = g.Fabric
		if g.Clos != nil || g.Fabric != nil {
			return c, nil
		}
		c.Graph = &canonicalGraph{}
		for _, v := range g.Nodes {
			names := &c.Graph.Switches
			if v.Kind == topology.KindHost {
				names = &c.Graph.Hosts
			}
			*names = append(*names, v.Name)
		}
		c.Graph.Cables = names.Of(g.Cables, func(v topology.Cable) [4]int64 {
			return [4]int64{int64(v.A), int64(v.B), v.BandwidthBps, v.DelayNS}
		})
		return c, nil
	}
	if s.loaded == nil {
		if _, err := s.IntactNetwork(); err != nil {
			return c, err
		}
	}
	c.Files = s.loadedDigests
	if s.topology.options.NodeList != "" {
		c.Files = c.Files[:len(c.Files)-1]
	}
	c.Options, err = s.canonicalOptions()
	return c, err
}

// load reads the topology file. It computes the digests of the files before reading them and compares them
// afterwards, so that the digests identify what was read.
func (s *Scenario) load() (*format.Loaded, error) {
	files, err := format.Files(s.topology.file)
	if err != nil {
		return nil, err
	}
	read := files
	list := s.topology.options.NodeList
	if list != "" {
		read = append(slices.Clone(files), list)
	}
	var digests []string
	for _, f := range read {
		d, err := s.FileDigest(f)
		if err != nil {
			return nil, err
		}
		digests = append(digests, d)
	}
	loaded, err := format.Load(s.topology.file, s.topology.options)
	for _, f := range read {
		changed := s.CheckUnchanged(f)
		if changed != nil {
			return nil, changed
		}
	}
	if err != nil {
		return nil, err
	}
	s.loaded = loaded
	s.loadedDigests = digests
	return loaded, nil
}

// canonicalDelays returns the delays that rules have set for cables, by their ends.
func (s *Scenario) canonicalDelays(n *topology.Network) (delays [][3]int64, err error) {
	for _, r := range s.topology.options.Delays {
		cables, err := n.Select(r.Selector)
		if err != nil {
			return nil, fmt.Errorf("delay %s: %w", r.Selector, err)
		}
		for _, cable := range cables {
			delays = setCable(delays, cable, r.DelayNS)
		}
	}
	return delays, nil
}

// setCable sets the value of a cable in a list that is sorted by ends.
func setCable(list [][3]int64, ends [2]int32, value int64) [][3]int64 {
	row := [3]int64{int64(ends[0]), int64(ends[1]), value}
	at, found := slices.BinarySearchFunc(list, row,
		func(a, b [3]int64) int { return slices.Compare(a[:2], b[:2]) })
	if !found {
		list = slices.Insert(list, at, row)
	}
	list[at] = row
	return list
}

// TopologyKey is the part of the canonical form for the topology. Two scenarios have the same key exactly if
// their networks are equal before anything fails. Files are identified by their content.
func (s *Scenario) TopologyKey() (json.RawMessage, error) {
	c, err := s.canonicalTopology()
	if err != nil {
		return nil, err
	}
	var delays [][3]int64
	if len(s.topology.options.Delays) > 0 {
		n, err := s.IntactNetwork()
		if err != nil {
			return nil, err
		}
		if delays, err = s.canonicalDelays(n); err != nil {
			return nil, err
		}
	}
	return json.Marshal(struct {
		canonicalTopology
		Delays [][3]int64 `json:"delays,omitempty"`
	}{c, delays})
}

func (s *Scenario) canonicalWorkload(n *topology.Network) (c canonicalWorkload, err error) {
	if c.Traffic, err = s.canonicalTraffic(); err != nil {
		return c, err
	}
	if s.workload.ingested != nil {
		c.Profiles = s.workload.ingested.Profiles
		c.Ingested = s.workload.ingested.Digests
		c.FromNS = s.workload.fromNS
		c.ToNS = s.workload.toNS
		return c, nil
	}
	if s.workload.flowFile != "" {
		c.Flows, err = s.digestTree(s.workload.flowFile)
		return c, err
	}
	w, err := s.Workload(n)
	if err != nil {
		return c, err
	}
	c.MaxLoad = w.MaxLoad
	c.DurationNS = w.DurationNS
	c.FlowsCount = w.Flows
	for _, v := range w.Services {
		c.Services = append(c.Services, canonicalService{v.Name, v.VNet, digestMatrix(v.Matrix),
			digestSizes(v.Sizes), v.Sigma, v.Share, v.Racks, v.Pairs, v.Poisson, v.TwinOf, v.Hosts, v.DSCP})
	}
	c.Jobs, err = s.Jobs(n)
	return c, err
}

func (c *canonicalScenario) failed(f topology.Failure) {
	if f.Member > 0 {
		row := [3]int64{int64(f.Ends[0]), int64(f.Ends[1]), int64(f.Member)}
		order := func(a, b [3]int64) int { return slices.Compare(a[:], b[:]) }
		at, known := slices.BinarySearchFunc(c.Changes.Members, row, order)
		if !known {
			c.Changes.Members = slices.Insert(c.Changes.Members, at, row)
		}
		return
	}
	c.Fail = append(c.Fail, f.Ends)
}

// settled sorts failures and adds their consequences.
func (c *canonicalScenario) settled(n *topology.Network, p simkernel.Params) (*Settled, error) {
	slices.SortFunc(c.Fail, func(a, b [2]int32) int { return slices.Compare(a[:], b[:]) })
	c.Fail = slices.Compact(c.Fail)
	v := c.Changes
	if v != nil && v.Starts == "" &&
		len(v.Cables)+len(v.Bandwidth)+len(v.Delays)+len(v.Members)+len(v.Flows) == 0 {
		c.Changes = nil
	}
	c.LoadOf = ""
	if len(c.Fail) > 0 && len(c.Workload.Services) > 0 {
		c.LoadOf = "intact"
	}
	text, err := json.Marshal(c)
	return &Settled{n, text, p, c.Switches, c.Classes, c.Moves}, err
}

// CheckForm returns an error if the seed or a setting differs from the one in the canonical form. The id of a
// scenario identifies this form only, so rows that other settings yield would be stored under a wrong id.
func (s *Settled) CheckForm(seed uint64) error {
	var c canonicalScenario
	if err := json.Unmarshal(s.Canonical, &c); err != nil {
		return err
	}
	markSeed := uint64(0)
	if s.Params.Transport.Traits().RandomMarks {
		markSeed = seed
	}
	for _, of := range []struct {
		name         string
		given, wants any
	}{
		{"seed", []uint64{seed, s.Params.Seed}, []uint64{c.Seed, markSeed}},
		{"transport", canonicalTransport(s.Params), c.Transport},
		{"switches", s.Switches, c.Switches},
		{"classes", s.Classes, c.Classes},
		{"moves", s.Moves, c.Moves},
	} {
		given, err := json.Marshal(of.given)
		if err != nil {
			return err
		}
		wants, err := json.Marshal(of.wants)
		if err != nil {
			return err
		}
		if !bytes.Equal(given, wants) {
			return fmt.Errorf("%s of the scenario is %s, but its canonical form has %s", of.name, given, wants)
		}
	}
	return nil
}

// FormProperties are properties of a scenario that its canonical form determines.
type FormProperties struct {
	MaxLoad     float64 // as Scenario.MaxLoad returns it
	FoundStarts bool    // as in Changes
}

// PropertiesOf returns the properties of a canonical form.
func PropertiesOf(canonical json.RawMessage) (p FormProperties, err error) {
	var c canonicalScenario
	err = json.Unmarshal(canonical, &c)
	p.MaxLoad = c.Workload.MaxLoad
	p.FoundStarts = c.Changes != nil && c.Changes.Starts != ""
	return p, err
}

// IDOf returns the id of a scenario with the canonical form of a Settled: 16 hexadecimal digits, which
// lake.ParseScenarioID accepts.
func IDOf(canonical []byte) string {
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:8])
}

// digestTree returns the digest of a file, or of all files of a directory in the order of their names.
func (s *Scenario) digestTree(path string) ([]string, error) {
	var digests []string
	err := filepath.WalkDir(path, func(file string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		d, err := s.FileDigest(file)
		digests = append(digests, d)
		return err
	})
	if err == nil && len(digests) == 0 {
		err = fmt.Errorf("%s: holds no file", path)
	}
	return digests, err
}

// A digestedFile is a file whose digest was computed.
type digestedFile struct {
	digest  string
	size    int64
	modTime time.Time
}

// FileDigest returns the digest of a file's content. The digest is kept as long as the file's size and time
// do not change, because flow files can be large.
func (s *Scenario) FileDigest(path string) (string, error) {
	info, err := checkFile(path)
	if err != nil {
		return "", err
	}
	known, ok := s.digests[path]
	if ok && known.size == info.Size() && known.modTime.Equal(info.ModTime()) {
		return known.digest, nil
	}
	digest, err := hashFile(path)
	if err == nil {
		s.digests[path] = digestedFile{digest, info.Size(), info.ModTime()}
	}
	return digest, err
}

func hashFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // it was only read
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}

// A ChangedError is the error for a file that was replaced or modified while a command was using it.
type ChangedError struct{ Path string }

// Error names the file.
func (e *ChangedError) Error() string {
	return e.Path + " was changed while this command was using it: run the command again"
}

// CheckTouched returns an error if a file's size or time has changed since FileDigest read it. It is a quick
// check before the file is read again.
func (s *Scenario) CheckTouched(path string) error {
	info, err := checkFile(path)
	if err != nil {
		return err
	}
	known, ok := s.digests[path]
	if ok && known.size == info.Size() && known.modTime.Equal(info.ModTime()) {
		return nil
	}
	return s.CheckUnchanged(path)
}

// CheckUnchanged returns an error if a file's content has changed since the last call of FileDigest for it. A
// command that reads a file after computing its digest calls this when it has read the last byte. The digest
// then identifies what was read.
func (s *Scenario) CheckUnchanged(path string) error {
	digest, err := hashFile(path)
	if err == nil && digest != s.digests[path].digest {
		err = &ChangedError{path}
	}
	return err
}

// digestMatrix and digestSizes compute the digest of the numbers, so that a comment in a file changes
// nothing, and a generated matrix is identified by its content.
func digestMatrix(m *workload.Matrix) string {
	if m == nil { // the service has pairs
		return ""
	}
	b := binary.LittleEndian.AppendUint64(nil, uint64(m.Racks()))
	for i := range m.Racks() {
		for j := range m.Racks() {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(m.Weight(i, j)))
		}
	}
	return BytesDigest(b)
}

func digestSizes(c *workload.SizeCDF) string {
	var b []byte
	for _, p := range c.Points() {
		b = binary.LittleEndian.AppendUint64(b, uint64(p.Bytes))
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(p.Percent))
	}
	return BytesDigest(b)
}

// BytesDigest returns the digest of bytes in the form that scenarios contain.
func BytesDigest(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}
