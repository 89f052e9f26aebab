package format

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"parsimon/schema/tree"
	"parsimon/stages/topology"
)

// Neighbours of SONiC switches that their configurations do not list: minigraph.xml, and what LLDP has found.

// managementPort matches the ports of a switch's own management.
var managementPort = regexp.MustCompile(`(?i)^(eth0$|mgmt|management|ma\d)`)

// A minigraphDevice is the type of a device.
type minigraphDevice struct {
	Type        string `xml:"type,attr"`
	Hostname    string
	ElementType string
}

// A minigraphLink is a link of the network (DeviceInterfaceLink), or of another (DeviceMgmtLink, DeviceSerialLink).
type minigraphLink struct {
	ElementType, StartDevice, StartPort, EndDevice, EndPort, Bandwidth string
}

// minigraph reads the links of minigraph.xml (DeviceLinkBase) and the types of devices (Device), at any depth.
func (r *sonicReader) minigraph(file string, data []byte) {
	x := xml.NewDecoder(bytes.NewReader(data))
	local := sonicFileName(file)
	for path := []string{}; ; {
		token, err := x.Token()
		line, _ := x.InputPos()
		at := place{file: file, line: line}
		if errors.Is(err, io.EOF) {
			return
		}
		switch v := token.(type) {
		case xml.StartElement:
			if path = append(path, v.Name.Local); slices.Contains([]string{"Device", "DeviceLinkBase"}, v.Name.Local) {
				path = path[:len(path)-1]
			}
			switch v.Name.Local {
			case "Device":
				var d minigraphDevice
				if err = x.DecodeElement(&d, &v); err == nil && d.Hostname != "" {
					r.minigraphDevice(d, at)
				}
			case "DeviceLinkBase":
				var l minigraphLink
				if err = x.DecodeElement(&l, &v); err == nil {
					r.minigraphLink(l, at, local)
				}
			}
		case xml.EndElement:
			path = path[:len(path)-1]
		case xml.CharData: // the file's own switch comes before what refers to it
			if name := strings.TrimSpace(string(v)); len(path) == 2 && path[1] == "Hostname" && name != "" {
				local = name
			}
		}
		if err != nil {
			r.faults = append(r.faults, *syntaxFault(file, line, "not readable as XML: %v", err))
			return
		}
	}
}

func (r *sonicReader) minigraphDevice(d minigraphDevice, at place) {
	kind := cmp.Or(d.ElementType, d.Type)
	if own := r.switches[d.Hostname]; own != nil && own.kind == "" {
		own.kind = sonicKind(kind)
	}
	r.kind(d.Hostname, kind, at)
}

// minigraphLink takes a link of the minigraph of a switch: its own, or one between others.
func (r *sonicReader) minigraphLink(l minigraphLink, at place, local string) {
	switch {
	case l.ElementType != "" && l.ElementType != "DeviceInterfaceLink":
		r.leaveOut()
		return
	case l.StartDevice == "" || l.EndDevice == "":
		r.fault(at, topology.FaultFormat, "DeviceLinkBase has no StartDevice or no EndDevice")
		return
	}
	a, b, bps := end{l.StartDevice, l.StartPort}, end{l.EndDevice, l.EndPort}, int64(0)
	if v, err := strconv.ParseInt(strings.TrimSpace(l.Bandwidth), 10, 64); err == nil && v > 0 && v < 10_000_000 {
		bps = v * 1e6
	}
	if b.device == local {
		a, b = b, a
	}
	if a.device == local {
		r.of(local, place{file: at.file, line: 1}).take(sonicNeighbor{a.port, b.device, b.port, bps, at}, sonicMinigraph)
		return
	}
	r.others = append(r.others, sighting{a: a, b: b, bps: bps, delayNS: -1, at: at})
}

// lldpJSON reads the output of lldpctl -f json: lldp.interface is a list of objects, or one object, by local port.
func (r *sonicReader) lldpJSON(file string, data []byte) {
	top := r.parsed(file, data, tree.JSON)
	if top.Value == nil {
		return
	}
	ports := top.Of("lldp").Of("interface")
	if ports.Value == nil {
		r.faults = append(r.faults, *syntaxFault(file, 1, "lldp.interface is missing: no neighbour was found, or this is "+
			"not lldpctl -f json"))
	}
	for _, object := range listOrOne(ports.Value) {
		for i, local := range object.Keys {
			item := object.Items[i]
			chassis, port := item.Get("chassis"), item.Get("port")
			n := lldpNeighbor{local: local, at: place{file: file, line: item.Line}, device: chassis.Get("name").Scalar()}
			if n.device == "" && chassis.Get("id") == nil && chassis != nil && len(chassis.Keys) > 0 {
				n.device, chassis = chassis.Keys[0], chassis.Items[0]
			}
			id := port.Get("id")
			n.portType, n.port, n.descr = id.Get("type").Scalar(), id.Get("value").Scalar(), port.Get("descr").Scalar()
			n.speed = port.Get("auto-negotiation").Get("current").Scalar()
			for _, c := range listOrOne(chassis.Get("capability")) {
				n.capability(c.Get("type").Scalar(), c.Get("enabled").Scalar() == "true")
			}
			r.lldp(n)
		}
	}
}

// listOrOne is the items of a list, or an object as the only one.
func listOrOne(t *tree.Value) []*tree.Value {
	switch {
	case t == nil:
		return nil
	case t.Kind == tree.Object:
		return []*tree.Value{t}
	}
	return t.Items
}

// An lldpNeighbor is what LLDP says of the far end of a local port.
type lldpNeighbor struct {
	local, device         string
	portType, port, descr string
	speed                 string // of the medium: 25GbaseCR …
	station, forwards     bool   // capabilities that are on
	at                    place
}

func (n *lldpNeighbor) capability(name string, on bool) {
	switch strings.ToLower(name) {
	case "bridge", "router":
		n.forwards = n.forwards || on
	case "station":
		n.station = n.station || on
	}
}

// lldp takes a neighbour that LLDP has found.
func (r *sonicReader) lldp(n lldpNeighbor) {
	if managementPort.MatchString(n.local) {
		r.leaveOut()
		return
	}
	if n.device == "" {
		r.fault(n.at, topology.FaultFormat, "the neighbour at %s has no system name: LLDP gives no name for it", n.local)
		return
	}
	label, _, _ := strings.Cut(n.device, ".")
	if r.switches[n.device] == nil && (r.switches[label] != nil || r.byFile[label] != nil) {
		n.device = r.of(label, n.at).name
	}
	// A port id may be an address or the alias of a port; then the description has its name, if it is one word.
	if !strings.EqualFold(n.portType, "ifname") && n.descr != "" && !strings.ContainsAny(n.descr, " \t") {
		n.port = n.descr
	}
	bps, err := topology.ParseSpeed(strings.TrimSuffix(strings.ToLower(strings.SplitN(n.speed+" ", " ", 2)[0]), ","))
	if err != nil {
		bps = 0
	}
	if n.station && !n.forwards {
		r.kinds = append(r.kinds, device{name: n.device, kind: topology.KindHost, at: n.at})
	}
	at := place{file: n.at.file, line: 1}
	r.of(sonicFileName(n.at.file), at).take(sonicNeighbor{n.local, n.device, n.port, bps, n.at}, sonicLLDP)
}

// lldpText reads "show lldp table", whose columns the dashes under its header mark, or "show lldp neighbors".
func (r *sonicReader) lldpText(file string, data []byte) {
	var columns [][2]int
	var n lldpNeighbor
	found := 0
	flush := func() {
		if n.local != "" {
			r.lldp(n)
			found++
		}
		n = lldpNeighbor{}
	}
	for i, line := range strings.Split(string(data), "\n") {
		line = strings.TrimRight(line, "\r ")
		at := place{file: file, line: i + 1}
		switch {
		case strings.HasPrefix(line, "---") && strings.Contains(line, " "):
			columns = dashes(line)
		case strings.HasPrefix(line, "---") || strings.HasPrefix(line, "Total"):
			columns = nil
		case columns != nil && line != "":
			cell := cells(line, columns)
			flush()
			n = lldpNeighbor{local: cell[0], device: cell[1], port: cell[2], descr: cell[4], at: at}
			n.station = strings.Contains(cell[3], "S")
			n.forwards = strings.ContainsAny(cell[3], "BR")
		default:
			key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			value = strings.TrimSpace(value)
			switch key {
			case "Interface":
				flush()
				n.at = at
				n.local, _, _ = strings.Cut(value, ",")
			case "SysName":
				n.device = value
			case "PortID":
				n.portType, n.port, _ = strings.Cut(value, " ")
			case "PortDescr":
				n.descr = value
			case "Capability":
				name, on, _ := strings.Cut(value, ", ")
				n.capability(name, on == "on")
			}
		}
	}
	flush()
	if found == 0 {
		r.faults = append(r.faults, *syntaxFault(file, 1, "lists no neighbour: want the output of show lldp table or "+
			"show lldp neighbors"))
	}
}

// dashes returns where the columns under a line of dashes begin and end.
func dashes(line string) (columns [][2]int) {
	for at := 0; at < len(line); {
		start := at
		for at < len(line) && line[at] == '-' {
			at++
		}
		if at > start {
			columns = append(columns, [2]int{start, at})
		}
		for at < len(line) && line[at] != '-' {
			at++
		}
	}
	return columns
}

// cells cuts a line into five cells by columns; the last goes on to the line's end.
func cells(line string, columns [][2]int) (cell [5]string) {
	for i, c := range columns {
		if i == len(cell) || c[0] >= len(line) {
			break
		}
		to := min(c[1], len(line))
		if i == len(columns)-1 {
			to = len(line)
		}
		cell[i] = strings.TrimSpace(line[c[0]:to])
	}
	return cell
}

// leaveOut counts a cable of another network.
func (r *sonicReader) leaveOut() {
	r.count(1, "cable", "left out: %s of the management and console networks")
}
