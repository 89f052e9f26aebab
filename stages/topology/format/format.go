// Package format reads networks from files of any format that "parsimon help topology" documents.
//
//	cabling list: CSV, Parquet, JSON; SuzieQ   ─┐
//	SONiC: config_db.json, LLDP; minigraph.xml  │ listings ── assemble ─┐
//	Batfish, containerlab, ns-3, GraphML, GML  ─┘ (one per cable end)   ▼
//	JSON, tables, htsim; clos, fabric, graph ───────────────────────► draft ─ finish ─► topology.Network
//	                                              (nodes, cables, lines)  └─► faults (file, line, text)
//
// A listing is one statement that two ports are connected. Method assemble turns listings into cables: it
// matches the two ends, resolves speeds and delays, joins the members of link aggregation groups, and infers
// hosts, roles, racks and pods (infer.go). Method finish checks the draft of any format. A Network exists
// only if there are no faults other than islands. Load reports all faults at once, and Loaded.Usable returns
// them as one error.
//
// JSON and YAML files are read as fields, each with its file, line and key (schema/tree). Tables are rows of
// text. Each column is known by several possible headers (table.go).
package format

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"parsimon/schema/names"
	"parsimon/stages/topology"
)

// readers has a reader for each format, by name, which fills the draft from the files. Errors in their
// content become faults of the draft.
var readers = map[string]func(d *draft){
	"tables": (*draft).readTables, "cabling": readCabling, "sonic": readSONiC, "yaml": (*draft).readYAML,
	"batfish": (*draft).readBatfish, "json": (*draft).readJSON, "containerlab": readClab,
	"minigraph": readMinigraph,
	"suzieq":    readSuzieQ, "ns3": readNS3, "htsim": readHtsim, "graphml": readGraphML, "gml": readGML,
}

// formatNames has the names of the formats, the most common first.
var formatNames = []string{
	"tables",
	"cabling",
	"sonic",
	"minigraph",
	"suzieq",
	"yaml",
	"batfish",
	"containerlab",
	"json",
	"ns3",
	"htsim",
	"graphml",
	"gml",
}

//go:embed docs
var docs embed.FS

// Docs returns, for each format, its name, its description and an example.
func Docs() (all [][2]string) {
	for _, name := range formatNames {
		text, err := docs.ReadFile("docs/" + name + ".txt")
		if err != nil {
			panic("format: " + err.Error()) // embedded in the program
		}
		all = append(all, [2]string{name, strings.TrimSpace(string(text))})
	}
	return all
}

// Options supply properties of the network that the file does not state. The zero value adds nothing.
type Options struct {
	// HostPatterns match the names of hosts. They may contain * and ?. If there are neither patterns nor a
	// node list, the format states the hosts, or they are inferred (see findHosts).
	HostPatterns []string
	// NodeList is a CSV or Parquet file of devices with their role, pod and rack.
	NodeList string
	// Exclude matches the names of devices that do not belong to the network. The patterns may contain * and
	// ?.
	Exclude []string `json:",omitempty"`
	// Speeds set the speed of cables without one in the file. The first rule that matches an end applies.
	Speeds []SpeedRule
	// DefaultSpeedBps is the bandwidth of a cable if neither the file, a rule nor the names of its ports give
	// one. 0 means no default.
	DefaultSpeedBps int64 `json:",omitempty"`
	// DefaultDelayNS is the propagation delay of a cable that has neither delay nor length. 0 means 1,000 ns.
	DefaultDelayNS int64
	// Delays replace the propagation delay of cables, even if the file states one.
	Delays []topology.DelayRule `json:",omitempty"`
	// Repair lists the kinds of faults that are repaired instead of reported.
	Repair []topology.FaultKind
}

// DefaultDelayNS is the propagation delay of a cable that has neither delay nor length, unless Options set
// another one.
const DefaultDelayNS = 1000

// A SpeedRule sets the speed of cables that have an end at a matching device and port.
type SpeedRule struct {
	Device, Port string // patterns
	BandwidthBps int64
}

func (r SpeedRule) String() string {
	return fmt.Sprintf(
		"%s:%s=%s",
		r.Device,
		r.Port,
		strings.ReplaceAll(topology.FormatBps(r.BandwidthBps), " ", ""),
	)
}

// ParseSpeedRule parses DEVICE=SPEED or DEVICE:PORT=SPEED, such as leaf*:Ethernet*=25G. The patterns may
// contain * and ?.
func ParseSpeedRule(text string) (SpeedRule, error) {
	at := strings.LastIndex(text, "=")
	if at < 1 {
		return SpeedRule{}, fmt.Errorf(
			"speed rule %q: want DEVICE:PORT=SPEED, such as leaf*:Ethernet*=25G",
			text,
		)
	}
	device, port, hasPort := strings.Cut(text[:at], ":")
	if !hasPort {
		port = "*"
	}
	bps, err := topology.ParseSpeed(text[at+1:])
	if err != nil {
		return SpeedRule{}, fmt.Errorf("speed rule %q: the speed %w", text, err)
	}
	return SpeedRule{strings.TrimSpace(device), strings.TrimSpace(port), bps}, nil
}

func (r SpeedRule) matches(e end) bool {
	return topology.MatchPattern(r.Device, e.device) && topology.MatchPattern(r.Port, e.port)
}

// A Loaded is the result of Load.
type Loaded struct {
	// Hosts, Switches and Cables are the numbers of each in the file, including faulty ones.
	Hosts    int               `json:"hosts"`
	Switches int               `json:"switches"`
	Cables   int               `json:"cables"`
	Faults   []Fault           `json:"faults"` // in order of file and line; not nil
	Format   string            `json:"format"`
	Files    []string          `json:"files"`
	Notes    []string          `json:"notes"` // what was inferred, which defaults apply, and what was repaired
	Network  *topology.Network `json:"-"`     // nil if faults other than islands remain
	// Repaired counts the repairs, by kind. It is not nil.
	Repaired map[topology.FaultKind]int `json:"repaired"`
	Settings []SwitchSettings           `json:"settings"` // SONiC only
}

// Usable returns the network. The error joins all faults, each with its file and line. Islands are not
// errors, but flows between them have no path.
func (l *Loaded) Usable() (*topology.Network, error) {
	if l.Network == nil {
		return nil, joinFaults(slices.DeleteFunc(slices.Clone(l.Faults),
			func(f Fault) bool { return f.Kind == topology.FaultIsland }))
	}
	return l.Network, nil
}

// Load reads a topology and reports all of its faults. It returns an error if a file is missing, if the
// format is unknown, or if a delay rule matches no cable.
func Load(path string, o Options) (*Loaded, error) {
	files, err := Files(path)
	if err != nil {
		return nil, err
	}
	return load(&source{path: path, files: files}, &o)
}

// LoadData is Load for the content of one file. The extension of the name is used to detect the format.
func LoadData(name string, data []byte, o Options) (*Loaded, error) {
	return load(&source{path: name, files: []string{name}, data: map[string][]byte{name: data}}, &o)
}

func load(s *source, o *Options) (*Loaded, error) {
	name := s.detect()
	if name == "" {
		return nil, errors.Join(s.err, s.unknownFormat())
	}
	d := newDraft(s, o)
	readers[name](d)
	if s.err != nil {
		return nil, fmt.Errorf("topology: %w", s.err)
	}
	d.Format = name
	d.checkNames()
	var delays []string
	d.Network = d.finish()
	if d.Network != nil {
		var err error
		if delays, err = d.Network.SetDelays(o.Delays); err != nil {
			return nil, fmt.Errorf("topology %s: %w", s.path, err)
		}
	}
	slices.SortStableFunc(d.Faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	d.Notes = slices.Concat(names.Of(d.notes, note.String), delays)
	for _, r := range Repairs {
		n := d.Repaired[r.Kind]
		if n > 0 {
			d.Notes = append(d.Notes, fmt.Sprintf("repaired: %d %s: %s", n, r.Kind, r.Doc))
		}
	}
	for _, v := range d.nodes {
		if v.Kind == topology.KindHost {
			d.Hosts++
		}
	}
	d.Switches = len(d.nodes) - d.Hosts
	d.Cables = len(d.cables) + d.unmerged
	return &d.Loaded, nil
}

// Files returns the files of a topology: the file itself, two files separated by a comma (nodes, then links),
// or the files of a directory: nodes and links as .csv or .parquet, a Batfish snapshot, or the files of SONiC
// switches.
func Files(path string) ([]string, error) {
	nodes, links, pair := strings.Cut(path, ",")
	if pair {
		if _, err := os.Stat(path); err != nil {
			return []string{nodes, links}, nil
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("topology: %w", err)
	}
	if !info.IsDir() {
		s := &source{path: path, files: []string{path}}
		if tabular(path) || slices.Contains([]string{".json", ".yaml", ".yml"}, extension(path)) ||
			formatOf(s.head(path)) != "" {
			return s.files, nil
		}
		return nil, s.unknownFormat()
	}
	finders := []func(string) ([]string, error){tableFiles, batfishFiles, sonicFiles, minigraphFiles,
		suzieqFiles}
	for _, find := range finders {
		if files, err := find(path); err != nil || len(files) > 0 {
			return files, err
		}
	}
	return nil, fmt.Errorf(
		"topology %s: the directory holds neither nodes and links (.csv or .parquet), nor "+
			"layer1_topology.json, nor files of SONiC switches (config_db.json, lldp.json or minigraph.xml), nor the "+
			"folders hostname=NAME of SuzieQ's table lldp",
		path,
	)
}

func extension(path string) string { return strings.ToLower(filepath.Ext(path)) }

// glob lists the files of a directory that match at least one pattern, in order of their names.
func glob(dir string, patterns ...string) (files []string, err error) {
	for _, pattern := range patterns {
		found, err := fs.Glob(os.DirFS(dir), pattern)
		if err != nil {
			return nil, fmt.Errorf("topology %s: %w", dir, err)
		}
		for _, name := range found {
			files = append(files, filepath.Join(dir, name))
		}
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

type source struct {
	path  string
	files []string
	data  map[string][]byte // their content; nil if they are read
	err   error             // why a file cannot be read
}

// content returns a file. It returns nil and an error if the file cannot be read or is not UTF-8, because
// tables of a lake cannot hold other encodings.
func (s *source) content(file string) []byte {
	if data, known := s.data[file]; known {
		return data
	}
	data, err := topology.ReadFile(file)
	line := 1
	for text := range bytes.Lines(data) {
		if extension(file) != ".parquet" && !utf8.Valid(text) {
			data, err = nil, fmt.Errorf("%s: line %d is not UTF-8 text: save the file as UTF-8", file, line)
			break
		}
		line++
	}
	if err != nil {
		s.err = err
	}
	return data
}
