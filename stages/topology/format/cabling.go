package format

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"parsimon/stages/topology"
)

// These are the columns of a cabling list.
var (
	cablingPortA = &column{several: true, names: []string{
		"port_a", "a_port", "side_a_name", "interface_a", "termination_a", "a_interface", "src_port",
		"source_port", "src_interface", "from_port", "local_port", "local_interface", "interface1", "port1",
		"startport", "start_port", "ifname", "node_interface",
	}}
	cablingPortB = &column{several: true, names: []string{
		"port_b", "b_port", "side_b_name", "interface_b", "termination_b", "b_interface", "dst_port",
		"dest_port", "target_port", "destination_port", "dst_interface", "to_port", "remote_port",
		"remote_interface", "neighbor_port", "interface2", "port2", "endport", "end_port", "peerifname",
		"peer_ifname", "peer_interface",
	}}
	cablingDeviceA = &column{several: true, names: []string{
		"device_a", "a_device", "side_a_device", "a", "src", "source", "src_device", "source_device",
		"src_node", "from", "from_device", "local_device", "local_host", "local_hostname", "node1",
		"node_a", "device1", "host_a", "switch_a", "end_a", "a_end", "endpoint_a", "side_a", "startdevice",
		"start_device", "node",
	}}
	cablingDeviceB = &column{several: true, names: []string{
		"device_b", "b_device", "side_b_device", "b", "dst", "dest", "target", "destination", "dst_device",
		"target_device", "destination_device", "dst_node", "to", "to_device", "remote_device",
		"remote_host", "remote_hostname", "neighbor", "neighbour", "node2", "node_b", "device2", "host_b",
		"switch_b", "end_b", "b_end", "endpoint_b", "side_b", "enddevice", "end_device", "peerhostname",
		"peer_hostname", "peer_node",
	}}
	cablingSpeed = &column{
		names: []string{"speed", "bandwidth", "rate", "capacity", "speed_bps", "bandwidth_bps",
			"speed_kbps", "bandwidth_kbps", "speed_mbps", "bandwidth_mbps", "speed_gbps", "bandwidth_gbps"},
	}
	cablingDelay = &column{names: []string{"delay", "delay_ns", "latency", "latency_ns", "propagation_delay",
		"propagation_delay_ns"}}
	cablingLength     = &column{names: []string{"length", "cable_length", "length_m"}}
	cablingLengthUnit = &column{names: []string{"length_unit"}}
	cablingStatus     = &column{names: []string{"status", "state", "cable_status"}, several: true}
	cablingTypeA      = &column{names: []string{"side_a_type", "termination_a_type", "type_a"}, several: true}
	cablingTypeB      = &column{names: []string{"side_b_type", "termination_b_type", "type_b"}, several: true}
	cablingMedium     = &column{names: []string{"type", "media", "cable_type"}, several: true}
	// These are the columns of SuzieQ's table lldp, except those of the ends.
	cablingNamespace = &column{names: []string{"namespace"}}
	cablingActive    = &column{names: []string{"active"}}
	// These are the columns of NetBox's interface connections, except that of the near device.
	cablingConnection = &column{names: []string{"connection", "connections"}}
	cablingInterface  = &column{names: []string{"interface", "name"}, several: true}
	cablingReachable  = &column{names: []string{"reachable"}}
)

func readCabling(d *draft) {
	t := openTable(
		d,
		d.files[0],
		cablingDeviceA,
		cablingDeviceB,
		cablingPortA,
		cablingPortB,
		cablingSpeed,
		cablingDelay,
		cablingLength,
		cablingLengthUnit,
		cablingStatus,
		cablingTypeA,
		cablingTypeB,
		cablingMedium,
	)
	if t == nil {
		return
	}
	r := newCablingReader(t)
	if r.chooseColumns() {
		r.readRows()
	}
}

func newCablingReader(t *table) *cablingReader {
	return &cablingReader{table: t, deviceA: cablingDeviceA, deviceB: cablingDeviceB, portA: cablingPortA,
		portB: cablingPortB, side: map[end]string{}}
}

// readRows reads the rows of the list and assembles the network.
func (r *cablingReader) readRows() {
	r.checkNamespaces()
	for i := range r.rows {
		r.row(i)
	}
	r.noteUnused()
	r.followPanels()
	s := listings{}
	for _, c := range r.cables {
		if c.planned {
			r.count(
				1,
				"cable",
				"planned: %s not part of the network (what-if --add-cable A:B=SPEED adds one)",
			)
			continue
		}
		s.all = append(s.all, c.listing)
	}
	r.assemble(&s)
}

type cablingReader struct {
	*table
	deviceA, deviceB, portA, portB *column

	joined  bool // there is no column of ports beside one of devices: a cell may be DEVICE:PORT
	inPorts bool // there are columns of ports only: a cell must be DEVICE:PORT
	cables  []listedCable
	side    map[end]string // of ports of patch panels, front or rear, if the list has the types of ends
}

// A listedCable is a row of the list. One row may list several cables.
type listedCable struct {
	listing
	planned bool
}

// chooseColumns decides which columns name the ends. It returns false and reports faults if no columns do.
func (r *cablingReader) chooseColumns() bool {
	if r.header(r.deviceB) != "" || r.header(cablingConnection) != "" {
		// If there is a column for the remote device, "device" is the local one.
		r.deviceA = &column{names: append(slices.Clip(r.deviceA.names), "device", "hostname")}
	}
	if r.header(r.deviceB) == "" && r.header(r.deviceA) != "" && r.header(cablingConnection) != "" {
		r.deviceB = cablingConnection
		r.portA = &column{names: append(slices.Clip(r.portA.names), cablingInterface.names...)}
	}
	if r.header(r.deviceA)+r.header(r.deviceB) == "" && r.header(r.portA) != "" && r.header(r.portB) != "" {
		r.inPorts = true
		r.deviceA = r.portA
		r.deviceB = r.portB
		r.portA = &column{}
		r.portB = &column{}
	}
	missing := slices.DeleteFunc(
		[]*column{r.deviceA, r.deviceB},
		func(c *column) bool { return r.header(c) != "" },
	)
	for _, c := range missing {
		r.syntax(r.file, 1, "has no column %s", columnList(c.names))
	}
	r.joined = r.header(r.portA) == "" && r.header(r.portB) == "" && r.deviceB != cablingConnection
	return len(missing) == 0
}

// checkNamespaces reports a fault if a list of SuzieQ has several networks, because a name may then belong to
// several devices.
func (r *cablingReader) checkNamespaces() {
	if r.header(cablingNamespace) == "" || len(r.rows) == 0 {
		return
	}
	first := r.cell(0, cablingNamespace)
	for i := range r.rows {
		other := r.cell(i, cablingNamespace)
		if other != first {
			r.fault(
				r.place(i),
				topology.FaultFormat,
				"is of namespace %s, and the rows before are of %s: list one namespace",
				other,
				first,
			)
			return
		}
	}
}

// ends returns the ends on one side of a row. There are several if the cable has several terminations.
func (r *cablingReader) ends(i int, device, port *column) []end {
	e := end{r.cell(i, device), r.cell(i, port)}
	switch {
	case device == cablingConnection:
		return connections(e.device)
	case strings.Contains(e.port, ","):
		return terminations(e)
	case strings.HasPrefix(r.header(port), "termination") && strings.Contains(e.device, ","):
		return terminations(e)
	case r.inPorts:
		e = end{port: e.device}
	}
	left, right, both := strings.Cut(cmp.Or(e.device, e.port), ":")
	if both && left != "" && right != "" && (r.joined || r.inPorts) {
		e = end{strings.TrimSpace(left), strings.TrimSpace(right)}
	}
	return []end{e}
}

// row reads one row. The row is one listing or more, or is omitted and counted, or is a fault.
func (r *cablingReader) row(i int) {
	at := r.place(i)
	near := r.ends(i, r.deviceA, r.portA)
	far := r.ends(i, r.deviceB, r.portB)
	types := []string{r.cell(i, cablingTypeA), r.cell(i, cablingTypeB)}
	kind := otherNetwork(types[0]+" "+types[1]+" "+r.cell(i, cablingMedium), near[0].port, far[0].port)
	if kind != "" {
		r.leaveOut(kind + " cables")
		return
	}
	if near[0].device == "" || far[0].device == "" {
		// In an export, a port without a peer has no cable. In other lists it is an incomplete row.
		export := r.header(cablingTypeA) != "" || r.header(cablingTypeB) != "" ||
			r.deviceB == cablingConnection
		unused := far[0] == end{} && near[0].port != "" || near[0] == end{} && far[0].port != ""
		if (export || unused) && near[0] != far[0] {
			r.leaveOut("unused ports, with one end only")
			return
		}
		r.fault(at, topology.FaultFormat, "names no device at one end")
		return
	}
	for k, ends := range [][]end{near, far} {
		if !r.typed(types[k], ends, at) {
			return
		}
	}
	s := listedCable{listing: listing{at: at, delayNS: r.delay(i, at)}}
	s.bps, s.lanes = r.speed(i, at)
	if r.status(i, &s) {
		r.add(s, near, far)
	}
}

// typed checks the types of the ends on one side, and records which are ports of patch panels.
func (r *cablingReader) typed(kind string, ends []end, at place) bool {
	kind = strings.ToLower(kind)
	side := ""
	switch {
	case kind == "" || strings.HasSuffix(kind, "interface"):
		return true
	case strings.Contains(kind, "front"):
		side = "front"
	case strings.Contains(kind, "rear"):
		side = "rear"
	default:
		r.fault(at, topology.FaultStatus,
			"ends at a %s, not at an interface; export interface connections, or leave the row out", kind)
		return false
	}
	for _, e := range ends {
		r.side[e] = side
	}
	return true
}

// status reads the status of a row. It returns false if the row has no connection, or if the status is
// unknown, which is a fault.
func (r *cablingReader) status(i int, s *listedCable) bool {
	text := strings.ToLower(r.cell(i, cablingReachable))
	if text == "false" || text == "no" {
		r.leaveOut("connections that are not reachable")
		return false
	}
	if strings.EqualFold(r.cell(i, cablingActive), "false") {
		r.leaveOut("neighbors that are no longer active")
		return false
	}
	switch status := strings.ToLower(r.cell(i, cablingStatus)); status {
	case "", "connected", "active", "installed", "up", "in use", "reachable":
	case "decommissioning":
		r.count(1, "cable", "status: %s being decommissioned, still part of the network")
	case "failed", "offline", "down", "broken":
		s.down = true
	case "planned":
		s.planned = true
	default:
		r.fault(
			s.at,
			topology.FaultStatus,
			"status %q is unknown (connected, planned, decommissioning, failed)",
			status,
		)
		return false
	}
	return true
}

// add adds the cables of a row: one, or one for each termination of a breakout or of a trunk. The speed of
// the row is the total of all of them.
func (r *cablingReader) add(s listedCable, near, far []end) {
	n := max(len(near), len(far))
	switch {
	case n > 1 && min(len(near), len(far)) == 1:
		if s.lanes < 2 {
			s.bps /= int64(n)
		}
		s.lanes = n
		r.count(1, "cable", "breakouts: %s with several terminations at one side")
	case len(near) != len(far):
		r.fault(
			s.at,
			topology.FaultFormat,
			"has %d terminations at one side and %d at the other",
			len(near),
			len(far),
		)
		return
	case n > 1 && s.lanes < 2:
		s.bps /= int64(n)
	}
	for k := range n {
		c := s
		c.a = near[min(k, len(near)-1)]
		c.b = far[min(k, len(far)-1)]
		if c.a.device == "" || c.b.device == "" {
			r.fault(s.at, topology.FaultFormat, "names no device at one end")
			continue
		}
		r.cables = append(r.cables, c)
	}
}

// otherNetworks are networks that do not carry traffic of hosts. They are recognized by words in the types of
// cables, and by names of ports.
var otherNetworks = []struct {
	kind        string
	types, port *regexp.Regexp
}{
	{"power", regexp.MustCompile(`(?i)power|outlet`), regexp.MustCompile(`(?i)^(psu|pdu|power|outlet)`)},
	{"console", regexp.MustCompile(`(?i)console`), regexp.MustCompile(`(?i)^(console|con\d|aux\d|ttys)`)},
	{"management", regexp.MustCompile(`(?i)management|mgmt`),
		regexp.MustCompile(
			`(?i)^(mgmt|management|oob|ipmi|idrac|ilo|bmc|ma\d|me\d|fxp\d|meth\d|m-gigabit|mge\d)`,
		)},
}

// otherNetwork returns the network of a cable: power, console or management. It returns "" for all other
// cables.
func otherNetwork(types string, ports ...string) string {
	for _, n := range otherNetworks {
		if n.types.MatchString(types) || slices.ContainsFunc(ports, n.port.MatchString) {
			return n.kind
		}
	}
	return ""
}

// unknownBps represents a speed whose fault has been reported.
const unknownBps = 1e10

// breakout matches the speed of a cable with several lanes, such as 4x25G.
var breakout = regexp.MustCompile(`^(\d{1,2})\s*[xX×*]\s*(\S.*)$`)

// speed returns the speed of a row in bps: 0 if it has none, and unknownBps if it is invalid. For a breakout
// it returns the speed of one lane, and the number of lanes.
func (r *cablingReader) speed(i int, at place) (bps int64, lanes int) {
	text := r.cell(i, cablingSpeed)
	if text == "" {
		return 0, 0
	}
	if knownPort(text) == "" || strings.EqualFold(text, "auto") || strings.EqualFold(text, "<auto>") {
		r.count(1, "row", "speeds: %s without one (n/a, -, auto or unknown)")
		return 0, 0
	}
	m := breakout.FindStringSubmatch(text)
	if m != nil {
		lanes, _ = strconv.Atoi(m[1]) // two digits at most
		text = m[2]
	}
	_, unit, _ := strings.Cut(r.header(cablingSpeed), "_") // speed_mbps takes plain numbers
	if unit != "" && strings.Trim(text, "0123456789.") == "" {
		text += unit
	}
	bps, err := topology.ParseSpeed(text)
	if err != nil {
		r.fault(at, topology.FaultFormat, "speed %v", err)
		return unknownBps, 0
	}
	plain, notPlain := strconv.ParseFloat(text, 64)
	if notPlain == nil && float64(bps) > plain {
		r.count(1, "row", "speeds: %s with a plain number, read as Mbps")
	}
	return bps, lanes
}

// delay returns the propagation delay of a row in ns, or -1 if it has none or is invalid.
func (r *cablingReader) delay(i int, at place) int64 {
	text := r.cell(i, cablingDelay)
	length := r.cell(i, cablingLength)
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
