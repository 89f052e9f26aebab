package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"parsimon/schema/names"
	"parsimon/schema/tree"
	"parsimon/schema/units"
	"parsimon/simkernel"
	"parsimon/simkernel/network"
	"parsimon/stages/moves"
	"parsimon/stages/step"
	"parsimon/stages/topology"
	"parsimon/stages/topology/format"
	"parsimon/stages/traffic"
	"parsimon/stages/workload"
)

// A Scenario has the topology, the workload, the transport and the seed: everything that the results depend
// on, and little else. datasets/scenarios/small.yaml explains every key of its file.
//
// Seed, Name, Fail, AllowUnreachable, MaxRejects and the fields that Set methods change must not be changed
// after the first call of another method.
type Scenario struct {
	Name string // changes no result
	Seed uint64 // below 2^63
	// Fail lists failed elements by ids or names: cables "A:B", nodes "A" with all of their cables, and ports
	// "DEVICE:PORT".
	Fail []string
	// AllowUnreachable counts flows between hosts without a path instead of returning an error.
	AllowUnreachable bool
	// MaxRejects is the share of the flow file's rows that may be rejected, from 0 to 1.
	MaxRejects float64
	// PathMoves are the settings for the choice of paths, and events.
	PathMoves moves.Text

	traffic  traffic.Rules
	topology topologySpec
	loaded   *format.Loaded // content of the topology file, once it was read
	// loadedDigests are the digests of the files that loaded was read from, in the order of the topology,
	// followed by that of the node list.
	loadedDigests []string
	delayNotes    []string // the cables of another topology that have other delays
	// These settings come from the configurations of the switches.
	switchNotes   []string
	alphaStated   bool                  // key switches.alpha is there
	switchBuffer  *network.BufferParams // size, alpha and reserve; nil: none is stated
	switchPFC     network.BufferParams  // other settings of PFC; 0 if not stated
	switchClasses []step.TrafficClass
	switches      Switches
	classes       []step.TrafficClass
	ofSwitches    bool // the classes are switchClasses
	workload      workloadSpec
	params        simkernel.Params        // the transport and its constants
	at            map[string]tree.Field   // places in the file of Fail and PathMoves
	digests       map[string]digestedFile // by path: see FileDigest
}

// A workloadSpec is a flow file, a workload of the lake, or services and jobs.
type workloadSpec struct {
	flowFile     string
	ingested     *Ingested
	fromNS, toNS int64 // of the ingested one, flows that start there; toNS 0: to its end
	services     []serviceSpec
	jobs         []jobSpec
	only         []string // names of the jobs that run; nil: all
	maxLoad      float64
	durationNS   int64 // or
	flowsCount   int64
}

// A serviceSpec is a service before it is applied to a network. Matrix is as in the file, and Hosts and Pairs
// have not been looked up.
type serviceSpec struct {
	workload.Service
	matrixKind string // without a file
	matrixSeed uint64
	racksAt    []tree.Field // place in the file of Racks
	pairs      []tree.Field // "A:B"; nil: a matrix
	hosts      []string     // see topology.Network.HostList; nil: all
	hostsAt    tree.Field
}

// These are the limits of the values of a scenario.
const (
	maxDurationNS = int64(1e15) // 11 days
	maxFlows      = 1_000_000_000_000
	maxRacks      = 1 << 20
	maxPairs      = 4096 // of one service; planning looks at every sender with every receiver
)

func newScenario() *Scenario {
	return &Scenario{
		Seed: 1, MaxRejects: 0.01,
		params: paramsOf(simkernel.DCTCP), at: map[string]tree.Field{}, digests: map[string]digestedFile{},
	}
}

// ErrNoFile is the error of Load if neither a file nor a shipped scenario has the name.
var ErrNoFile = errors.New("there is no such file, and no shipped scenario has the name")

// Load reads a scenario file, or a shipped scenario by name (datasets.Scenarios). Paths in a file are
// relative to it. Errors name the file, the line and the key (*tree.FieldError).
func Load(path string) (*Scenario, error) { return LoadWith(path, nil) }

// FromFiles returns the scenario of a topology and a flow file, with defaults for everything else. The
// topology is a file as for format.Load, or the name of a shipped one.
func FromFiles(topologyName, flowFile string) (*Scenario, error) {
	s := newScenario()
	if _, err := checkFile(flowFile); err != nil {
		return nil, fmt.Errorf("flow file: %w", err)
	}
	s.workload.flowFile = flowFile
	s.Name = baseName(flowFile)
	return s, s.setTopology(topologyName)
}

// Ingested identifies a workload that was ingested into a lake.
type Ingested struct {
	ID      string
	Digests []string // of everything that the flows are made from

	FirstStartNS, LastStartNS int64
	// Profiles is set if the workload has the bytes of connections over time. They end at EndNS.
	Profiles bool
	EndNS    int64
}

// lastNS returns the last time at which a flow may start.
func (w *Ingested) lastNS() int64 { return max(w.LastStartNS, w.EndNS-1) }

// FromWorkload returns the scenario of a topology, as for FromFiles, and an ingested workload.
func FromWorkload(topologyName string, w Ingested) (*Scenario, error) {
	s := newScenario()
	s.workload.ingested = &w
	s.Name = w.ID
	return s, s.setTopology(topologyName)
}

// OfTopology returns a scenario without a workload, for uses that need only the topology.
func OfTopology(topologyName string) (*Scenario, error) {
	s := newScenario()
	return s, s.setTopology(topologyName)
}

// Ingested returns the ingested workload of the scenario and the requested range of start times, without
// toNS. ok is false for other workloads.
func (s *Scenario) Ingested() (w Ingested, fromNS, toNS int64, ok bool) {
	if s.workload.ingested == nil {
		return w, 0, 0, false
	}
	toNS = s.workload.toNS
	if toNS == 0 {
		toNS = math.MaxInt64
	}
	return *s.workload.ingested, s.workload.fromNS, toNS, true
}

// SetWindow selects the flows of an ingested workload that start in a range of time, without its end. Times
// are in ns, RFC 3339 timestamps, or HH:MM or HH:MM:SS on the workload's first day in UTC. An empty text is
// the beginning or the end of the workload. It returns an error if there are no such flows, or if the
// beginning is not a whole number of ns.
func (s *Scenario) SetWindow(from, to string) (err error) {
	if s.workload.ingested == nil {
		return errors.New("only of an ingested workload can a part be taken")
	}
	for _, w := range []struct {
		text string
		ns   *int64
	}{{from, &s.workload.fromNS}, {to, &s.workload.toNS}} {
		if w.text == "" {
			continue
		}
		if *w.ns, err = s.workload.ingested.parseTime(w.text); err != nil {
			return err
		}
	}
	w := s.workload.ingested
	switch lo, hi := s.workload.fromNS, s.workload.toNS; {
	case from != "" && to != "" && hi <= lo:
		return fmt.Errorf("%s is not before %s", from, to)
	case lo > w.lastNS(), to != "" && hi <= w.FirstStartNS:
		return fmt.Errorf("workload %s has %w that was asked for: its flows start %s", w.ID, ErrNoFlows, w.span())
	case lo > 0 && lo < w.FirstStartNS/moves.Aeons:
		return fmt.Errorf("%s is long before the first flow: times are in ns since 1970, and the flows of "+
			"workload %s start %s",
			from, w.ID, w.span())
	}
	return nil
}

// parseTime parses a time of the workload.
func (w *Ingested) parseTime(text string) (ns int64, err error) {
	for _, layout := range []string{"15:04", "15:04:05"} {
		of, err := time.Parse(layout, text)
		if err == nil {
			midnight := time.Unix(0, w.FirstStartNS).UTC().Truncate(24 * time.Hour)
			return midnight.Add(of.Sub(of.Truncate(24 * time.Hour))).UnixNano(), nil
		}
	}
	return moves.ParseTime(text)
}

// ErrNoFlows is wrapped by the error for a part of a workload without flows.
var ErrNoFlows = errors.New("no flow in the part")

func (w Ingested) span() string {
	return fmt.Sprintf("from %s to %s", units.Time(w.FirstStartNS), units.Time(w.LastStartNS))
}

// checkFile rejects missing files, pipes and devices, because opening a pipe would wait for its writer.
func checkFile(path string) (fs.FileInfo, error) {
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s is a directory, want a file", path)
	} else if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is a pipe or a device, want a file", path)
	}
	return info, err
}

func baseName(path string) string {
	base := filepath.Base(path)
	return strings.TrimSuffix(base, filepath.Ext(base))
}

// FlowFile returns the path of the flow file. It is empty for workloads that are generated or come from the
// lake.
func (s *Scenario) FlowFile() string { return s.workload.flowFile }

func (s *Scenario) traced() bool { return s.workload.flowFile != "" || s.workload.ingested != nil }

// MaxLoad returns the expected load of the most loaded link, or 0 for traces.
func (s *Scenario) MaxLoad() float64 { return s.workload.maxLoad }

// SetAll sets several keys of a scenario file at once, as flags of run do. If the transport changes, it gets
// its default constants and keeps the window. If SetAll returns an error (*tree.FieldError), the scenario is
// unchanged.
func (s *Scenario) SetAll(settings []Setting) error {
	top := &tree.Value{Kind: tree.Object}
	before := *s
	for _, c := range settings {
		parsed, err := tree.YAML("", []byte(c.Value))
		if err == nil {
			err = set(top, strings.Split(c.FullKey(), "."), parsed.Value)
		}
		var field *tree.FieldError
		if errors.As(err, &field) {
			err = field.Err
		}
		if err != nil {
			*s = before
			return &tree.FieldError{Key: c.FullKey(), Err: err}
		}
		if c.FullKey() == "workload.duration" { // it replaces flows_count
			s.workload.flowsCount = 0
		}
	}
	err := tree.Field{Value: top}.Object((&scenarioReader{Scenario: s}).keys())
	if err != nil {
		*s = before
	}
	return err
}

// Network builds the topology, including its failures.
func (s *Scenario) Network() (*topology.Network, error) {
	n, _, err := s.failedNetwork()
	return n, err
}

// Moves returns the changes of paths on the scenario's network.
func (s *Scenario) Moves(n *topology.Network) (*moves.Moves, error) {
	m, err := s.PathMoves.Apply(n, nil)
	var of *moves.TextError
	if errors.As(err, &of) {
		if at, inFile := s.at[of.Text]; inFile {
			return nil, at.Fail(err)
		}
	}
	return m, err
}

func (s *Scenario) failedNetwork() (n *topology.Network, all []topology.Failure, err error) {
	if n, err = s.IntactNetwork(); err != nil {
		return nil, nil, err
	}
	for _, text := range s.Fail {
		failures, err := n.FailNamed(text)
		if at, inFile := s.at[text]; err != nil && inFile {
			return nil, nil, at.Fail(err)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("fail: %w", err)
		}
		all = append(all, failures...)
	}
	return n, all, nil
}

// Workload returns the workload to generate on a network, with matrices for its racks. A matrix has pods if
// all pods have the same number of racks, otherwise it treats all racks as one pod. The same applies to a
// service that is confined to some racks or hosts.
func (s *Scenario) Workload(n *topology.Network) (*workload.Workload, error) {
	if s.traced() {
		return nil, errors.New("the flows come from a trace, there is nothing to generate")
	}
	w := &workload.Workload{MaxLoad: s.workload.maxLoad, DurationNS: s.workload.durationNS,
		Flows: s.workload.flowsCount}
	for _, v := range s.workload.services {
		service, err := v.on(n)
		if err != nil {
			return nil, err
		}
		w.Services = append(w.Services, service)
	}
	return w, nil
}

// Beginning returns the scenario with at most a number of flows, those that start first. If the flows are not
// drawn from services, or if it has jobs, it returns the scenario itself.
func (s *Scenario) Beginning(flows int64) *Scenario {
	w := s.workload
	if s.traced() || s.HasJobs() || w.flowsCount > 0 && w.flowsCount <= flows {
		return s
	}
	first := *s
	first.workload.flowsCount = flows
	return &first
}

// TimesBeginning estimates how many times as many flows the scenario has as its beginning (Beginning), which
// has a number of flows that start up to lastNS. It returns 1 if the beginning has all flows.
func (s *Scenario) TimesBeginning(beginning *Scenario, flows, lastNS int64) float64 {
	w := s.workload
	switch {
	case s == beginning || flows < beginning.workload.flowsCount:
		return 1
	case w.flowsCount > 0:
		return float64(w.flowsCount) / float64(flows)
	}
	return max(1, float64(w.durationNS)/float64(max(1, lastNS)))
}

func (s *serviceSpec) on(n *topology.Network) (v workload.Service, err error) {
	v = s.Service
	for i, rack := range s.Racks {
		racks := len(n.Racks())
		if rack >= racks {
			return v, s.racksAt[i].Failf("is %d, and the topology has racks 0 to %d", rack, racks-1)
		}
	}
	for _, at := range s.pairs {
		a, b, err := n.Pair(at.Value.Text)
		if err != nil {
			return v, at.Failf("is %q: %w", at.Value.Text, err)
		}
		v.Pairs = append(v.Pairs, [2]int32{a, b})
	}
	if v.Pairs != nil {
		return v, nil
	}
	if s.hosts != nil {
		if v.Hosts, err = n.HostList(s.hosts); err != nil {
			return v, s.hostsAt.Fail(err)
		}
	}
	if v.Matrix != nil {
		return v, nil
	}
	pods := n.Pods()
	racks := n.Racks()
	if s.Racks != nil || v.Hosts != nil {
		pods = 1
		racks = workload.HostRacks(n, s.Racks, v.Hosts)
	}
	if len(racks) == 0 {
		return v, fmt.Errorf("service %q: none of its hosts is in its racks", s.Name)
	}
	if len(racks)%pods != 0 {
		pods = 1
	}
	if v.Matrix, err = workload.NewMatrixOf(s.matrixKind, pods, len(racks)/pods, s.matrixSeed); err != nil {
		return v, fmt.Errorf("service %q: %w", s.Name, err)
	}
	return v, nil
}

// A Setting is a key of a scenario file with a new value.
type Setting struct {
	Key   string // as in the file: workload.max_load, workload.services[0].sigma
	Value string // as in the file
}

// String is KEY=VALUE.
func (s Setting) String() string { return s.Key + "=" + s.Value }

// FullKey returns the key as in a file, also if Key is an alias.
func (s Setting) FullKey() string {
	if long, ok := aliases[s.Key]; ok {
		return long
	}
	return s.Key
}

// NeedsFile reports whether a setting changes a part of a value of the file, such as the sizes of one service
// or a delay of a generated network. LoadWith applies it. SetAll cannot, because it does not know the other
// parts.
func (s Setting) NeedsFile() bool {
	key := s.FullKey()
	for _, list := range []string{"workload.services", "workload.jobs"} {
		if strings.HasPrefix(key, list) && key != list {
			return true
		}
	}
	return strings.HasPrefix(key, "topology.") && !slices.Contains(exclusive[0], key)
}

// aliases are short names of keys.
var aliases = map[string]string{"load.max": "workload.max_load", "window": "transport.window",
	"mtu": "transport.payload"}

// exclusive lists keys of a mapping that exclude each other. Setting one removes the others.
var exclusive = [][]string{
	{"topology.name", "topology.file", "topology.clos", "topology.fabric", "topology.graph"},
	{"topology.clos.oversubscription", "topology.clos.spines_per_plane"},
	{"workload.duration", "workload.flows_count"},
}

// LoadWith reads a scenario file or a shipped scenario as Load does, with some keys changed. If the transport
// changes, it gets its default constants and keeps the file's window, unless other settings change them.
// Errors name the setting.
func LoadWith(path string, settings []Setting) (*Scenario, error) {
	top, dir, err := open(path)
	if err != nil {
		return nil, err
	}
	sc, err := read(top, dir)
	if err != nil || len(settings) == 0 {
		return sc, err
	}
	if err := checkExclusive(settings); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	text := strings.Join(names.Of(settings, Setting.String), ", ")
	for _, kinds := range []bool{true, false} { // a new kind of transport resets the constants
		for _, s := range settings {
			if (s.Key == kindKey) != kinds {
				continue
			}
			if err := apply(top.Value, s); err != nil {
				return nil, fmt.Errorf("%s: --set %s: %w", path, s, err)
			}
		}
	}
	sc, err = read(top, dir)
	var field *tree.FieldError
	if errors.As(err, &field) {
		return nil, fmt.Errorf("%s with %s: %s: %w", path, text, field.Key, field.Err)
	}
	if err == nil {
		sc.Name += ", " + text
	}
	return sc, err
}

// checkExclusive returns an error for settings that exclude each other. Otherwise the last one would silently
// apply.
func checkExclusive(settings []Setting) error {
	for _, group := range exclusive {
		var given []string
		for _, s := range settings {
			key := s.FullKey()
			if slices.Contains(group, key) && !slices.Contains(given, key) {
				given = append(given, key)
			}
		}
		if len(given) > 1 {
			return Refusal{fmt.Errorf("--set %s do not go together: a scenario has one of them",
				strings.Join(given, " and "))}
		}
	}
	return nil
}

const kindKey = "transport.kind"

func apply(top *tree.Value, s Setting) error {
	key := s.FullKey()
	transport := top.Get("transport")
	if key == kindKey && cmp.Or(transport.Get("kind").Scalar(),
		simkernel.DefaultParams().Transport.String()) != s.Value {
		kept := &tree.Value{Kind: tree.Object}
		window := transport.Get("window")
		if window != nil {
			kept.Keys = []string{"window"}
			kept.Items = []*tree.Value{window}
		}
		if err := set(top, []string{"transport"}, kept); err != nil {
			return err
		}
	}
	for _, group := range exclusive {
		for _, other := range group {
			if other != key && slices.Contains(group, key) {
				remove(top, strings.Split(other, "."))
			}
		}
	}
	f, err := tree.YAML("value", []byte(s.Value))
	if err != nil {
		return fmt.Errorf("is no YAML value: %w", err)
	}
	return set(top, strings.Split(key, "."), f.Value)
}

// set sets the value of a key below an object. It creates missing objects on the path to the key. Elements of
// lists must exist. They are written NAME[I], or NAME.ELEMENT if elements have names.
func set(m *tree.Value, path []string, v *tree.Value) error {
	name, at, err := element(path[0])
	if err != nil {
		return err
	}
	i := slices.Index(m.Keys, name)
	if i < 0 {
		if at >= 0 {
			return fmt.Errorf("the file has no %s (an element that has a name is %s.NAME)", name, name)
		}
		i = len(m.Keys)
		m.Keys = append(m.Keys, name)
		m.Items = append(m.Items, &tree.Value{Kind: tree.Object})
	}
	place := &m.Items[i]
	if at >= 0 {
		if at >= len((*place).Items) || (*place).Kind != tree.List {
			return fmt.Errorf("the file has no %s", path[0])
		}
		place = &(*place).Items[at]
	}
	if len(path) == 1 {
		*place = v
		return nil
	}
	if (*place).Kind == tree.List && len(path) > 2 {
		named := func(item *tree.Value) bool { return item.Get("name").Scalar() == path[1] }
		at = slices.IndexFunc((*place).Items, named)
		if at < 0 {
			return fmt.Errorf("%s has none of the name %s", path[0], path[1])
		}
		place = &(*place).Items[at]
		path = path[1:]
	}
	if (*place).Kind != tree.Object {
		return fmt.Errorf("%s has no keys", path[0])
	}
	return set(*place, path[1:], v)
}

// element parses NAME or NAME[I]. at is -1 for NAME.
func element(text string) (name string, at int, err error) {
	name, rest, ok := strings.Cut(text, "[")
	if !ok {
		return text, -1, nil
	}
	digits, closed := strings.CutSuffix(rest, "]")
	at, err = strconv.Atoi(digits)
	if err != nil || !closed || at < 0 || name == "" {
		return "", 0, fmt.Errorf("%q: want KEY or KEY[I]", text)
	}
	return name, at, nil
}

func remove(m *tree.Value, path []string) {
	i := slices.Index(m.Keys, path[0])
	switch {
	case i < 0:
	case len(path) > 1:
		remove(m.Items[i], path[1:])
	default:
		m.Keys = slices.Delete(m.Keys, i, i+1)
		m.Items = slices.Delete(m.Items, i, i+1)
	}
}
