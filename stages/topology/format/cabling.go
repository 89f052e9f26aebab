package format

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"parsimon/schema/tree"
	"parsimon/stages/topology"
)

// The columns of a cabling list.
var (
	cablingPortA = &column{several: true, names: []string{
		"port_a", "a_port", "side_a_name", "interface_a", "termination_a", "a_interface", "src_port",
		"source_port", "src_interface", "from_port", "local_port", "local_interface", "interface1", "port1",
	}}
	cablingPortB = &column{several: true, names: []string{
		"port_b", "b_port", "side_b_name", "interface_b", "termination_b", "b_interface", "dst_port",
		"dest_port", "target_port", "destination_port", "dst_interface", "to_port", "remote_port",
		"remote_interface", "neighbor_port", "interface2", "port2",
	}}
	cablingDeviceA = &column{several: true, names: []string{
		"device_a", "a_device", "side_a_device", "a", "src", "source", "src_device", "source_device",
		"src_node", "from", "from_device", "local_device", "local_host", "local_hostname", "node1",
		"node_a", "device1", "host_a", "switch_a", "end_a", "a_end", "endpoint_a", "side_a",
	}}
	cablingDeviceB = &column{several: true, names: []string{
		"device_b", "b_device", "side_b_device", "b", "dst", "dest", "target", "destination", "dst_device",
		"target_device", "destination_device", "dst_node", "to", "to_device", "remote_device",
		"remote_host", "remote_hostname", "neighbor", "neighbour", "node2", "node_b", "device2", "host_b",
		"switch_b", "end_b", "b_end", "endpoint_b", "side_b",
	}}
	cablingSpeed = &column{names: []string{"speed", "bandwidth", "rate", "capacity", "speed_bps", "bandwidth_bps",
		"speed_kbps", "bandwidth_kbps", "speed_mbps", "bandwidth_mbps", "speed_gbps", "bandwidth_gbps"}}
	cablingDelay = &column{names: []string{"delay", "delay_ns", "latency", "latency_ns", "propagation_delay",
		"propagation_delay_ns"}}
	cablingLength     = &column{names: []string{"length", "cable_length", "length_m"}}
	cablingLengthUnit = &column{names: []string{"length_unit"}}
	cablingStatus     = &column{names: []string{"status", "state", "cable_status"}, several: true}
	cablingTypeA      = &column{names: []string{"side_a_type", "termination_a_type", "type_a"}, several: true}
	cablingTypeB      = &column{names: []string{"side_b_type", "termination_b_type", "type_b"}, several: true}
	cablingMedium     = &column{names: []string{"type", "media", "cable_type"}, several: true}
)

func readCabling(d *draft) {
	r := cablingReader{deviceA: cablingDeviceA, deviceB: cablingDeviceB, portA: cablingPortA, portB: cablingPortB}
	r.table = openTable(d, d.files[0], r.deviceA, r.deviceB, r.portA, r.portB, cablingSpeed, cablingDelay,
		cablingLength, cablingLengthUnit, cablingStatus, cablingTypeA, cablingTypeB, cablingMedium)
	if r.table == nil {
		return
	}
	if r.header(r.deviceB) != "" { // beside the column of a remote device, "device" is the local one
		r.deviceA = &column{names: append(slices.Clip(r.deviceA.names), "device")}
	}
	if r.header(r.deviceA)+r.header(r.deviceB) == "" && r.header(r.portA) != "" && r.header(r.portB) != "" {
		r.inPorts, r.deviceA, r.deviceB, r.portA, r.portB = true, r.portA, r.portB, &column{}, &column{}
	}
	missing := slices.DeleteFunc([]*column{r.deviceA, r.deviceB}, func(c *column) bool { return r.header(c) != "" })
	for _, c := range missing {
		d.syntax(r.file, 1, "has no column %s", columnList(c.names))
	}
	if len(missing) > 0 {
		return
	}
	r.joined = r.header(r.portA) == "" && r.header(r.portB) == ""
	for i := range r.rows {
		r.row(i)
	}
	r.noteUnused()
	d.assemble(&r.listings)
}

type cablingReader struct {
	*table
	deviceA, deviceB, portA, portB *column

	joined   bool // there is no column of ports beside one of devices: a cell may be DEVICE:PORT
	inPorts  bool // there are columns of ports only: a cell must be DEVICE:PORT
	listings listings
}

func (r *cablingReader) end(i int, device, port *column) end {
	e := end{r.cell(i, device), r.cell(i, port)}
	if r.joined {
		if name, port, both := strings.Cut(e.device, ":"); both && name != "" && port != "" {
			return end{strings.TrimSpace(name), strings.TrimSpace(port)}
		}
	}
	if r.inPorts {
		return end{port: e.device}
	}
	return e
}

// row reads one row: a listing, a row that is left out and counted, or a fault. Rows of patch panels
// are faults, because leaving them out could hide a cable of the network.
func (r *cablingReader) row(i int) {
	at := r.place(i)
	s := listing{at: at, a: r.end(i, r.deviceA, r.portA), b: r.end(i, r.deviceB, r.portB)}
	types := []string{r.cell(i, cablingTypeA), r.cell(i, cablingTypeB)}
	if kind := otherNetwork(types[0]+" "+types[1]+" "+r.cell(i, cablingMedium), s.a.port, s.b.port); kind != "" {
		r.leaveOut(kind + " cables")
		return
	}
	if s.a.device == "" || s.b.device == "" {
		// An export lists ports without a cable; in other lists a port without its peer is one.
		export := r.header(cablingTypeA) != "" || r.header(cablingTypeB) != ""
		unused := s.b == end{} && s.a.port != "" || s.a == end{} && s.b.port != ""
		if (export || unused) && s.a != s.b {
			r.leaveOut("unused ports, with one end only")
			return
		}
		r.fault(at, topology.FaultFormat, "names no device at one end")
		return
	}
	for _, kind := range types {
		if kind != "" && !strings.HasSuffix(strings.ToLower(kind), "interface") {
			r.fault(at, topology.FaultStatus,
				"ends at a %s, not at an interface; export interface connections, or leave the row out", kind)
			return
		}
	}
	s.bps, s.delayNS = r.speed(i, at), r.delay(i, at)
	switch status := strings.ToLower(r.cell(i, cablingStatus)); status {
	case "", "connected", "active", "installed", "up", "in use", "reachable":
	case "decommissioning":
		r.count(1, "cable", "status: %s being decommissioned, still part of the network")
	case "failed", "offline", "down", "broken":
		s.down = true
	case "planned":
		r.count(1, "cable", "planned: %s not part of the network (what-if --add-cable A:B=SPEED adds one)")
		return
	default:
		r.fault(at, topology.FaultStatus, "status %q is unknown (connected, planned, decommissioning, failed)", status)
		return
	}
	r.listings.all = append(r.listings.all, s)
}

// otherNetworks are networks that carry no traffic of hosts. They are recognized by words in the types of cables, and
// by names of ports.
var otherNetworks = []struct {
	kind        string
	types, port *regexp.Regexp
}{
	{"power", regexp.MustCompile(`(?i)power|outlet`), regexp.MustCompile(`(?i)^(psu|pdu|power|outlet)`)},
	{"console", regexp.MustCompile(`(?i)console`), regexp.MustCompile(`(?i)^(console|con\d|aux\d|ttys)`)},
	{"management", regexp.MustCompile(`(?i)management|mgmt`),
		regexp.MustCompile(`(?i)^(mgmt|management|oob|ipmi|idrac|ilo|bmc|ma\d|me\d|fxp\d)`)},
}

// otherNetwork returns the kind of network of a cable: power, console or management; empty for other cables.
func otherNetwork(types string, ports ...string) string {
	for _, n := range otherNetworks {
		if n.types.MatchString(types) || slices.ContainsFunc(ports, n.port.MatchString) {
			return n.kind
		}
	}
	return ""
}

// unknownBps stands for a speed that is a fault already.
const unknownBps = 1e10

// speed returns a row's speed in bps; 0 where it has none, unknownBps where it is a fault.
func (r *cablingReader) speed(i int, at place) int64 {
	text := r.cell(i, cablingSpeed)
	switch strings.ToLower(strings.Trim(text, "<>()")) {
	case "":
		return 0
	case "n/a", "na", "-", "--", "auto", "none", "null", "nil", "unknown", "unspecified", "?", "tbd":
		r.count(1, "row", "speeds: %s without one (n/a, -, auto or unknown)")
		return 0
	}
	_, unit, _ := strings.Cut(r.header(cablingSpeed), "_") // speed_mbps takes plain numbers
	if unit != "" && strings.Trim(text, "0123456789.") == "" {
		text += unit
	}
	bps, err := topology.ParseSpeed(text)
	if err != nil {
		r.fault(at, topology.FaultFormat, "speed %v", err)
		return unknownBps
	}
	if plain, notPlain := strconv.ParseFloat(text, 64); notPlain == nil && float64(bps) > plain {
		r.count(1, "row", "speeds: %s with a plain number, read as Mbps")
	}
	return bps
}

// delay returns a row's propagation delay in ns; -1 where it has none or a fault.
func (r *cablingReader) delay(i int, at place) int64 {
	text, length := r.cell(i, cablingDelay), r.cell(i, cablingLength)
	var ns int64
	var err error
	switch {
	case text != "":
		if ns, err = topology.ParseDelay(text); err != nil {
			err = fmt.Errorf("delay %w", err)
		}
	case length != "":
		r.count(1, "row", "delays: %s with a length, at 5 ns/m")
		ns, err = topology.LengthDelay(length, r.cell(i, cablingLengthUnit))
	default:
		return -1
	}
	if err != nil {
		r.fault(at, topology.FaultFormat, "%v", err)
		return -1
	}
	return ns
}

func (r *cablingReader) leaveOut(what string) { r.count(1, "row", "left out: %s: "+what) }

const batfishFile = "layer1_topology.json"

// batfishFiles returns the layer-1 topology of a snapshot directory; none where there is none.
func batfishFiles(dir string) ([]string, error) {
	files, err := glob(dir, filepath.Join("batfish", batfishFile), batfishFile)
	return files[max(0, len(files)-1):], err
}

// readBatfish makes one listing of each edge, seen from node1. Names are compared without case, as
// Batfish does: it lower-cases all node names.
func (d *draft) readBatfish() {
	top := d.document(d.files[0], tree.JSON)
	if top.Value == nil {
		return
	}
	seen := listings{foldCase: true}
	for _, edge := range d.list(top.Of("edges")) {
		a, okA := d.batfishEnd(edge, "node1")
		b, okB := d.batfishEnd(edge, "node2")
		if okA && okB {
			seen.all = append(seen.all, listing{a: a, b: b, delayNS: -1, at: lineOf(edge)})
		}
	}
	d.assemble(&seen)
}

// batfishEnd reads {hostname, interfaceName}. Both must be there: without interfaces, two edges between
// the same nodes cannot be distinguished.
func (d *draft) batfishEnd(edge tree.Field, key string) (e end, ok bool) {
	if !d.take(edge.Need(key)) {
		return e, false
	}
	f := edge.Of(key)
	e = end{strings.TrimSpace(f.Value.Get("hostname").Scalar()), f.Value.Get("interfaceName").Scalar()}
	if ok = e.device != "" && e.port != ""; !ok {
		d.bad(f, "needs hostname and interfaceName")
	}
	return e, ok
}
