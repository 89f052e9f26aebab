package format

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"parsimon/stages/topology"
)

// headBytes is the number of bytes of a file that are read to detect its format.
const headBytes = 64 << 10

// head returns the beginning of a file. It is empty if the file cannot be read or is not a regular file.
func (s *source) head(file string) string {
	given, known := s.data[file]
	if known {
		return string(given[:min(len(given), headBytes)])
	}
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	f, err := topology.Open(file)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }() // only read
	data, err := io.ReadAll(io.LimitReader(f, headBytes))
	if err != nil {
		return ""
	}
	return string(bytes.TrimPrefix(data, []byte("\ufeff")))
}

// plainJSON has the top-level keys of networks in JSON, as the files of the Parsimon paper use them.
var plainJSON = []string{"planes", "pods", "fab2spine", "nodes", "links"}

// detect returns the format of the files, from their names and their first bytes, or "" if it is unknown.
func (s *source) detect() string {
	first := s.files[0]
	switch {
	case extension(first) == ".parquet" && pathValue(first, "hostname") != "":
		return "suzieq"
	case len(s.files) > 1 && tabular(first) && tabular(s.files[1]):
		return "tables"
	case isFlowList("", s.head(first)):
		return ""
	case tabular(first):
		return "cabling"
	case extension(first) == ".json":
		return s.detectJSON()
	case extension(first) == ".yaml" || extension(first) == ".yml":
		if slices.Contains(s.topLevelKeys(first), "topology") {
			return "containerlab"
		}
		return "yaml"
	}
	return formatOf(s.head(first))
}

// IsGenerated reports whether a file describes a network by a key of GeneratedKeys, in YAML.
func IsGenerated(path string) bool {
	s := &source{path: path, files: []string{path}}
	return s.detect() == "yaml"
}

func (s *source) detectJSON() string {
	first := s.files[0]
	keys := s.topLevelKeys(first)
	has := func(names ...string) bool {
		return slices.ContainsFunc(keys, func(key string) bool { return slices.Contains(names, key) })
	}
	switch {
	case has("DEVICE_NEIGHBOR", "DEVICE_METADATA", "PORT", "lldp"):
		return "sonic"
	case len(s.files) > 1:
		return ""
	case strings.HasPrefix(strings.TrimSpace(s.head(first)), "["):
		return "cabling"
	case filepath.Base(first) == batfishFile || has("edges") && !has("nodes"):
		return "batfish"
	case len(keys) == 0 || has(plainJSON...) && !has("directed", "multigraph"):
		return "json"
	}
	return ""
}

// formatOf returns the format of a file that begins with a text. It knows the formats whose files have no
// extension, and returns "" for others.
func formatOf(head string) string {
	switch {
	case strings.Contains(head, "<DeviceMiniGraph"):
		return "minigraph"
	case strings.Contains(head, "<graphml"):
		return "graphml"
	case isHtsim(head):
		return "htsim"
	case isNS3(head):
		return "ns3"
	case gmlStart.MatchString(head):
		return "gml"
	}
	return ""
}

// A foreignFormat is a format that cannot be read, with the command that converts a file of it.
type foreignFormat struct {
	what    string
	is      func(name, head string) bool
	convert string // with FILE for the name
}

func hasExtension(extensions ...string) func(name, head string) bool {
	return func(name, _ string) bool { return slices.Contains(extensions, extension(name)) }
}

func hasText(parts ...string) func(name, head string) bool {
	return func(_, head string) bool {
		return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(head, part) })
	}
}

const toGraphML = `python3 -c 'import json, networkx as nx; nx.write_graphml(%s, "net.graphml")'`

// The first foreignFormat that matches applies.
var foreignFormats = []foreignFormat{
	{"a spreadsheet", hasExtension(".xlsx", ".xls", ".ods"), "libreoffice --headless --convert-to csv FILE"},
	{"a graph of Graphviz", hasExtension(".dot", ".gv"), "gv2gml FILE > net.gml"},
	{"a graph of networkx", hasText(`"directed"`, `"multigraph"`),
		fmt.Sprintf(toGraphML, `nx.node_link_graph(json.load(open("FILE")))`)},
	{"a pickled graph of networkx", hasExtension(".pickle", ".gpickle", ".pkl"),
		fmt.Sprintf(toGraphML, `__import__("pickle").load(open("FILE", "rb"))`)},
	{"an edge list", hasExtension(".edgelist", ".edges"), fmt.Sprintf(toGraphML, `nx.read_edgelist("FILE")`)},
	{
		"a graph of Pajek",
		hasExtension(".net", ".paj"),
		fmt.Sprintf(toGraphML, `nx.Graph(nx.read_pajek("FILE"))`),
	},
	{"a graph of GEXF", hasText("<gexf"), fmt.Sprintf(toGraphML, `nx.read_gexf("FILE")`)},
	{"a list of cables from the API of NetBox", hasText(`"a_terminations"`, `"b_terminations"`), `jq -r '` +
		`["a", "port_a", "b", "port_b"], (.results[] | [.a_terminations[0], .b_terminations[0] | .object | ` +
		`.device.name, .name]) | @csv' FILE > cables.csv`},
	{"a project of GNS3", hasText(`"project_id"`, `"topology"`), `jq -r '.topology as $t | ($t.nodes | ` +
		`map({(.node_id): .name}) | add) as $n | ["a", "port_a", "b", "port_b"], ($t.links[].nodes | [.[] | ` +
		`$n[.node_id], "\(.adapter_number)/\(.port_number)"]) | @csv' FILE > cables.csv`},
}

// traffic has formats of traffic, which users give instead of a network by mistake. convert is the command
// that reads them.
var traffic = []foreignFormat{
	{"a connection matrix of htsim", isConnectionMatrix, convertTrace},
	{"a schedule of LogGOPSim", hasText("num_ranks", "rank 0"), convertTrace},
	{"a Chakra trace", hasExtension(".et"), convertTrace},
	{"a list of flows", isFlowList, "parsimon run --topology NETWORK --flows FILE"},
	{"a conn.log of Zeek", hasText("#fields", "id.orig_h"), "parsimon ingest FILE --topology NETWORK"},
}

// isFlowList reports whether a file begins with the header of a flow list.
func isFlowList(_, head string) bool {
	header, _, _ := strings.Cut(head, "\n")
	return strings.Contains(header, "size_bytes") && strings.Contains(header, "start_ns")
}

const convertTrace = "parsimon convert FILE --topology NETWORK -o flows.csv"

// unknownFormat returns the error for a file of an unknown format. It names the format that the file
// resembles, and the command that converts or reads it.
func (s *source) unknownFormat() error {
	first := s.files[0]
	head := s.head(first)
	for _, f := range traffic {
		if f.is(first, head) {
			return fmt.Errorf("topology %s: it looks like %s, which is traffic, not a network. To read it: %s",
				s.path, f.what, strings.ReplaceAll(f.convert, "FILE", first))
		}
	}
	for _, f := range foreignFormats {
		if f.is(first, head) {
			return fmt.Errorf(
				"topology %s: no known format: it looks like %s; this turns it into a file that is read: %s",
				s.path,
				f.what,
				strings.ReplaceAll(f.convert, "FILE", first),
			)
		}
	}
	return fmt.Errorf(
		"topology %s: no known format (%s); \"parsimon help topology\" shows an example of each. A cabling "+
			"list is the simplest: a table a,port_a,b,port_b,speed with a row per cable",
		s.path,
		strings.Join(formatNames, ", "),
	)
}
