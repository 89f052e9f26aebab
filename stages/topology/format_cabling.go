package topology

import (
	"fmt"
	"strings"
)

const cablingDoc = `
A cabling list, .csv (comma, semicolon or tab) or .parquet, one row per cable; also NetBox's cable and
interface-connection exports. Columns, in any order and spelling of "Device A", "device_a", "device-a":
  device_a, device_b  or a/b, src/dst, source/target, from/to, local_device/remote_device,
                      side_a_device/side_b_device, node1/node2: names, or ids where all are numbers
  port_a, port_b      optional; or interface_a, termination_a, side_a_name, local_port, …
  speed               or bandwidth, rate: 10G, 100Gbps, 25GE, 100gbase-sr4; a plain number is Mbps from
                      1,000 and bps from 10,000,000. speed_bps, speed_mbps, speed_gbps take plain numbers
  delay               optional: 500ns, 1.2us; a plain number is ns
  length              optional: 30m, 12ft; a plain number is in length_unit, else metres. 5 ns/m
  status              optional: connected, active; planned (not part of the network, but listed);
                      failed, offline, down (part of it, and down); decommissioning (part of it)
A cable with neither delay nor length has a delay of 1,000 ns (--default-delay). A list may give each
cable once, or once from each end as LLDP does.

  device_a,port_a,device_b,port_b,speed,length,status
  web1,eth0,leaf1,Ethernet1,25G,3m,connected
  leaf1,Ethernet49,spine1,Ethernet1,100G,30m,connected
  leaf1,Ethernet50,spine2,Ethernet1,100G,30m,planned`

// Column names of a cabling list, in order of preference.
var (
	cablingDeviceA = []string{
		"device_a", "a_device", "side_a_device", "a", "src", "source", "src_device", "source_device",
		"src_node", "from", "from_device", "local_device", "local_host", "local_hostname", "node1",
		"node_a", "device1", "host_a", "switch_a",
	}
	cablingDeviceB = []string{
		"device_b", "b_device", "side_b_device", "b", "dst", "dest", "target", "destination", "dst_device",
		"target_device", "destination_device", "dst_node", "to", "to_device", "remote_device",
		"remote_host", "remote_hostname", "neighbor", "neighbour", "node2", "node_b", "device2", "host_b",
		"switch_b",
	}
	cablingPortA = []string{
		"port_a", "a_port", "side_a_name", "interface_a", "termination_a", "a_interface", "src_port",
		"source_port", "src_interface", "from_port", "local_port", "local_interface", "interface1", "port1",
	}
	cablingPortB = []string{
		"port_b", "b_port", "side_b_name", "interface_b", "termination_b", "b_interface", "dst_port",
		"dest_port", "target_port", "destination_port", "dst_interface", "to_port", "remote_port",
		"remote_interface", "neighbor_port", "interface2", "port2",
	}
	cablingSpeed = []string{"speed", "bandwidth", "rate", "capacity", "speed_bps", "bandwidth_bps", "speed_mbps",
		"bandwidth_mbps", "speed_gbps", "bandwidth_gbps"}
	cablingDelay = []string{"delay", "delay_ns", "latency", "latency_ns", "propagation_delay",
		"propagation_delay_ns"}
	cablingLength     = []string{"length", "cable_length", "length_m"}
	cablingLengthUnit = []string{"length_unit"}
	cablingStatus     = []string{"status", "state", "cable_status"}
	cablingTypes      = [][]string{{"side_a_type", "termination_a_type"}, {"side_b_type", "termination_b_type"}}
	cablingMedium     = []string{"type", "media", "cable_type"}
)

// plainUnits are the units that the name of a speed column gives to plain numbers.
var plainUnits = map[string]string{
	"speed_bps": "bps", "speed_mbps": "Mbps", "speed_gbps": "Gbps",
	"bandwidth_bps": "bps", "bandwidth_mbps": "Mbps", "bandwidth_gbps": "Gbps",
}

func detectCabling(s *source) bool { return len(s.files) == 1 && tabular(s.files[0]) }

func readCabling(s *source, o *Options) (*draft, error) {
	data, err := s.read(s.files[0])
	if err != nil {
		return nil, err
	}
	d := &draft{}
	g, fault := parseGrid(d, s.files[0], data)
	if fault != nil {
		d.faults = append(d.faults, *fault)
		return d, nil
	}
	s.release(s.files[0])
	if !d.hasColumns(g, cablingDeviceA, cablingDeviceB) {
		return d, nil
	}
	r := cablingReader{draft: d, grid: g, o: o}
	r.speedColumn, _ = g.name(cablingSpeed)
	for i := range g.rows {
		r.row(i)
	}
	r.report()
	r.sightings.assemble(d, o)
	return d, nil
}

// A cablingReader turns the rows of a list into sightings and counts what the notes report.
type cablingReader struct {
	*draft
	grid        *grid
	o           *Options
	speedColumn string
	sightings   sightings

	plainMbps, lengths, decommissioning, planned int
}

// row reads one row: a sighting, a planned cable, or a fault. Rows of power and console cables and of
// patch panels are faults, because leaving them out could hide a cable of the network.
func (r *cablingReader) row(i int) {
	g, at := r.grid, r.grid.place(i)
	s := sighting{at: at}
	s.a = end{g.cell(i, cablingDeviceA), g.cell(i, cablingPortA)}
	s.b = end{g.cell(i, cablingDeviceB), g.cell(i, cablingPortB)}
	if s.a.device == "" || s.b.device == "" {
		r.fault(at, FaultFormat, "names no device at one end")
		return
	}
	g.name(cablingMedium) // read by people only
	for _, columns := range cablingTypes {
		if kind := g.cell(i, columns); kind != "" && !strings.HasSuffix(kind, "interface") {
			r.fault(at, FaultStatus,
				"ends at a %s, not at an interface; export interface connections, or leave the row out", kind)
			return
		}
	}
	s.bps = r.speed(i, at)
	s.delayNS = r.delay(i, at)
	switch status := strings.ToLower(g.cell(i, cablingStatus)); status {
	case "", "connected", "active", "installed", "up", "in use", "reachable":
	case "decommissioning":
		r.decommissioning++
	case "failed", "offline", "down", "broken":
		s.down = true
	case "planned":
		r.plan(s)
		return
	default:
		r.fault(at, FaultStatus, "status %q is unknown (connected, planned, decommissioning, failed)", status)
		return
	}
	r.sightings.list = append(r.sightings.list, s)
}

// plan lists a cable that is not part of the network.
func (r *cablingReader) plan(s sighting) {
	c := namedCable{a: s.a, b: s.b, bps: s.bps}
	c.applyRules(r.o, make([]bool, len(r.o.Speeds)), &assemblyCounts{})
	p := PlannedCable{A: s.a.device, PortA: s.a.port, B: s.b.device, PortB: s.b.port, BandwidthBps: c.bps,
		DelayNS: s.delayNS, File: s.at.file, Line: s.at.line}
	if p.DelayNS < 0 {
		p.DelayNS = r.o.defaultDelay()
	}
	r.draft.planned = append(r.draft.planned, p)
	r.planned++
}

// speed returns a row's speed in bps; 0 where it has none or a fault.
func (r *cablingReader) speed(i int, at place) int64 {
	text := r.grid.cell(i, cablingSpeed)
	if text == "" {
		return 0
	}
	if unit := plainUnits[r.speedColumn]; unit != "" && strings.Trim(text, "0123456789.") == "" {
		text += unit
	}
	bps, mbps, err := parseSpeed(text)
	if err != nil {
		r.fault(at, FaultFormat, "speed %v", err)
		return unknownBps
	}
	if mbps {
		r.plainMbps++
	}
	return bps
}

// unknownBps stands for a speed that is a fault already.
const unknownBps = 1e10

// delay returns a row's propagation delay in ns; -1 where it has none or a fault.
func (r *cablingReader) delay(i int, at place) int64 {
	if text := r.grid.cell(i, cablingDelay); text != "" {
		ns, err := parseQuantity(text, durationUnits)
		if err != nil {
			r.fault(at, FaultFormat, "delay %v", err)
			return -1
		}
		return ns
	}
	text := r.grid.cell(i, cablingLength)
	if text == "" {
		return -1
	}
	ns, err := lengthDelay(text, r.grid.cell(i, cablingLengthUnit))
	if err != nil {
		r.fault(at, FaultFormat, "%v", err)
		return -1
	}
	r.lengths++
	return ns
}

// report notes how speeds, delays and statuses were read.
func (r *cablingReader) report() {
	notes := []struct {
		n    int
		text string
	}{
		{r.plainMbps, "speeds: %s a plain number, read as Mbps"},
		{r.lengths, fmt.Sprintf("delays: %%s a length, at %d ns/m", nsPerMetre)},
		{r.planned, "planned: %s a plan and not part of the network"},
		{r.decommissioning, "status: %s being decommissioned, still part of the network"},
	}
	verbs := [2]string{"have", "has"}
	for k, note := range notes {
		if k >= 2 {
			verbs = [2]string{"are", "is"}
		}
		if note.n > 0 {
			verb := verbs[0]
			if note.n == 1 {
				verb = verbs[1]
			}
			r.note(note.text, count(note.n, "cable")+" "+verb)
		}
	}
	r.grid.noteUnused(r.draft)
}
