// Package format reads networks from files of any of the formats that "parsimon help topology" documents.
//
//	cabling list: CSV, Parquet, JSON; SuzieQ   ─┐
//	SONiC: config_db.json, LLDP; minigraph.xml  │ listings ── assemble ─┐
//	Batfish, containerlab, ns-3, GraphML, GML  ─┘ (one per cable end)   ▼
//	JSON, tables, htsim; clos, fabric, graph ───────────────────────► draft ─ finish ─► topology.Network
//	                                              (nodes, cables, lines)  └─► faults (file, line, text)
//
// A listing is one statement that two ports are joined. Assemble turns listings into cables: it matches the
// two ends, resolves speeds and delays, joins the members of link aggregation groups, and infers hosts,
// roles, racks and pods (infer.go). Finish checks the draft of any format. A Network exists only if no fault
// but islands remains; Load reports all faults at once, Loaded.Usable returns them as one error.
//
// JSON and YAML are fields with the file, the line and the key of each (schema/tree). Tables are rows of text
// under columns, each column a list of the headers that it may have (table.go).
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

// readers are the formats by name: each fills the draft from the files. An error of their content is a
// fault of the draft.
var readers = map[string]func(d *draft){
	"tables": (*draft).readTables, "cabling": readCabling, "sonic": readSONiC, "yaml": (*draft).readYAML,
	"batfish": (*draft).readBatfish, "json": (*draft).readJSON, "containerlab": readClab, "minigraph": readMinigraph,
	"suzieq": readSuzieQ, "ns3": readNS3, "htsim": readHtsim, "graphml": readGraphML, "gml": readGML,
}

// formatNames are those of the formats, the most common first.
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

// Docs returns the name and the documentation, what it is and then an example, of every format.
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

// Options add what a file does not say about the network it describes. The zero value adds nothing.
type Options struct {
	// HostPatterns match the names of hosts, with * and ?. Without patterns and a node list, hosts
	// are what the format says, else they are guessed (see findHosts).
	HostPatterns []string
	// NodeList is a CSV or Parquet file of devices with their role, pod and rack.
	NodeList string
	// Exclude matches the names of devices that are no part of the network, with * and ?.
	Exclude []string `json:",omitempty"`
	// Speeds give cables a speed that the file does not; the first rule that matches an end applies.
	Speeds []SpeedRule
	// DefaultSpeedBps is the bandwidth of a cable with neither speed nor rule, and whose ports' names do not
	// say it; 0: none.
	DefaultSpeedBps int64 `json:",omitempty"`
	// DefaultDelayNS is the propagation delay of a cable with neither delay nor length; 0 is 1,000 ns.
	DefaultDelayNS int64
	// Delays change the propagation delay of cables, instead of what the file says.
	Delays []topology.DelayRule `json:",omitempty"`
	// Repair lists the kinds of faults to repair rather than to report.
	Repair []topology.FaultKind
}

// DefaultDelayNS is the propagation delay of a cable with neither delay nor length, unless Options say
// another.
const DefaultDelayNS = 1000

// A SpeedRule gives a speed to the cables with an end at a matching device and port.
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

// ParseSpeedRule reads DEVICE=SPEED or DEVICE:PORT=SPEED, with * and ? in the patterns, for example
// leaf*:Ethernet*=25G.
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

// A Loaded is what Load found.
type Loaded struct {
	// Hosts, Switches and Cables count what the file describes, faulty or not.
	Hosts    int               `json:"hosts"`
	Switches int               `json:"switches"`
	Cables   int               `json:"cables"`
	Faults   []Fault           `json:"faults"` // in order of file and line; not nil
	Format   string            `json:"format"`
	Files    []string          `json:"files"`
	Notes    []string          `json:"notes"` // what was inferred, which defaults apply, and what was repaired
	Network  *topology.Network `json:"-"`     // nil where faults other than islands remain
	// Repaired counts the repairs that Options.Repair allowed, by kind; not nil.
	Repaired map[topology.FaultKind]int `json:"repaired"`
	Settings []SwitchSettings           `json:"settings"` // SONiC only
}

// Usable returns the network. The error joins all faults, each with its file and line, but islands, which a
// network may have: flows between them are unreachable.
func (l *Loaded) Usable() (*topology.Network, error) {
	if l.Network == nil {
		return nil, joinFaults(slices.DeleteFunc(slices.Clone(l.Faults),
			func(f Fault) bool { return f.Kind == topology.FaultIsland }))
	}
	return l.Network, nil
}

// Load reads a topology and reports everything that is wrong with it. The error is for what cannot
// be read at all, a missing file or an unknown format, and for delay rules that no cable matches.
func Load(path string, o Options) (*Loaded, error) {
	files, err := Files(path)
	if err != nil {
		return nil, err
	}
	return load(&source{path: path, files: files}, &o)
}

// LoadData is Load for the content of one file. The extension of the name helps to detect the format.
func LoadData(name string, data []byte, o Options) (*Loaded, error) {
	return load(&source{path: name, files: []string{name}, data: map[string][]byte{name: data}}, &o)
}

func load(s *source, o *Options) (*Loaded, error) {
	name := s.detect()
	if name == "" {
		return nil, errors.Join(s.err, s.unknownFormat())
	}
	d := newDraft(s, o)
	if readers[name](d); s.err != nil {
		return nil, fmt.Errorf("topology: %w", s.err)
	}
	d.Format = name
	d.checkNames()
	var delays []string
	if d.Network = d.finish(); d.Network != nil {
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
		if n := d.Repaired[r.Kind]; n > 0 {
			d.Notes = append(d.Notes, fmt.Sprintf("repaired: %d %s: %s", n, r.Kind, r.Doc))
		}
	}
	for _, v := range d.nodes {
		if v.Kind == topology.KindHost {
			d.Hosts++
		}
	}
	d.Switches, d.Cables = len(d.nodes)-d.Hosts, len(d.cables)+d.unmerged
	return &d.Loaded, nil
}

// Files returns the files of a topology: the file itself, two files separated by a comma (nodes, then links),
// or the files of a directory: nodes and links as .csv or .parquet, a Batfish snapshot, or the files of SONiC
// switches.
func Files(path string) ([]string, error) {
	if nodes, links, pair := strings.Cut(path, ","); pair {
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
	finders := []func(string) ([]string, error){tableFiles, batfishFiles, sonicFiles, minigraphFiles, suzieqFiles}
	for _, find := range finders {
		if files, err := find(path); err != nil || len(files) > 0 {
			return files, err
		}
	}
	return nil, fmt.Errorf(
		"topology %s: the directory holds neither nodes and links (.csv or .parquet), nor "+
			"layer1_topology.json, nor files of SONiC switches (config_db.json, lldp.json or minigraph.xml), nor the folders "+
			"hostname=NAME of SuzieQ's table lldp",
		path,
	)
}

func extension(path string) string { return strings.ToLower(filepath.Ext(path)) }

// glob lists the files of a directory that match one of some patterns, in order of name.
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
	data  map[string][]byte // their content; nil where they are read
	err   error             // why a file cannot be read
}

// content returns a file; nil, and an error of the source, where it cannot be read or is text of another
// encoding than UTF-8, which no table of a lake can hold.
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
