package format

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	"parsimon/schema/tree"
	"parsimon/stages/topology"
)

// Neighbours of SONiC switches that their configurations do not list: minigraph.xml, and what LLDP has found.

// managementPort matches the ports of a switch's own management.
var managementPort = regexp.MustCompile(`(?i)^(eth0$|mgmt|management|ma\d)`)

// minigraph reads the links of minigraph.xml (DeviceLinkBase) and the types of devices (Device).
func (r *sonicReader) minigraph(file string, data []byte) {
	x := xml.NewDecoder(bytes.NewReader(data))
	local, depth := "", 0
	for {
		line, _ := x.InputPos()
		token, err := x.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			r.faults = append(r.faults, *syntaxFault(file, line, "not readable as XML: %v", err))
			return
		}
		line, _ = x.InputPos()
		switch v := token.(type) {
		case xml.StartElement:
			depth++
			if handled, err := r.element(x, v, depth, place{file: file, line: line}, &local); err != nil {
				r.faults = append(r.faults, *syntaxFault(file, line, "not readable as XML: %v", err))
				return
			} else if handled {
				depth--
			}
		case xml.EndElement:
			depth--
		}
	}
}

// element reads one element of minigraph.xml, if it is one that says something. local is the switch that the file is
// of.
func (r *sonicReader) element(x *xml.Decoder, at xml.StartElement, depth int, where place,
	local *string) (bool, error) {
	switch at.Name.Local {
	case "Hostname":
		var name string
		if err := x.DecodeElement(&name, &at); err != nil || depth != 2 {
			return true, err
		}
		*local = strings.TrimSpace(name)
	case "Device":
		var v struct {
			Type        string `xml:"type,attr"`
			Hostname    string
			ElementType string
		}
		if err := x.DecodeElement(&v, &at); err != nil || v.Hostname == "" {
			return true, err
		}
		kind := v.ElementType
		if kind == "" {
			kind = v.Type
		}
		if own := r.switches[v.Hostname]; own != nil && own.kind == "" {
			own.kind = sonicKind(kind)
		}
		r.kind(v.Hostname, kind, where)
	case "DeviceLinkBase":
		var v struct{ ElementType, StartDevice, StartPort, EndDevice, EndPort, Bandwidth string }
		if err := x.DecodeElement(&v, &at); err != nil {
			return true, err
		}
		if v.ElementType != "" && v.ElementType != "DeviceInterfaceLink" {
			r.leftOut++ // DeviceMgmtLink, DeviceSerialLink
			return true, nil
		}
		if v.StartDevice == "" || v.EndDevice == "" {
			r.fault(where, topology.FaultFormat, "DeviceLinkBase has no StartDevice or no EndDevice")
			return true, nil
		}
		r.link(end{v.StartDevice, v.StartPort}, end{v.EndDevice, v.EndPort}, v.Bandwidth, where, *local)
	default:
		return false, nil
	}
	return true, nil
}

// link takes a link of the minigraph of a switch: its own, or one between others.
func (r *sonicReader) link(a, b end, mbps string, at place, local string) {
	if local == "" {
		local = sonicFileName(at.file)
	}
	bps := int64(0)
	if v, err := strconv.ParseInt(strings.TrimSpace(mbps), 10, 64); err == nil && v > 0 && v < 10_000_000 {
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
	value, bad := tree.JSON(data)
	t := r.parsed(file, value, bad)
	if t == nil {
		return
	}
	list := t.Get("lldp").Get("interface")
	if list == nil {
		r.faults = append(r.faults, *syntaxFault(file, 1, "lldp.interface is missing: no neighbour was found, or this is "+
			"not lldpctl -f json"))
		return
	}
	items := list.Items
	if list.Kind == tree.Object {
		items = []*tree.Value{list}
	}
	for _, item := range items {
		for i, local := range item.Keys {
			chassis, port := item.Items[i].Get("chassis"), item.Items[i].Get("port")
			at := place{file: file, line: item.Items[i].Line}
			n := lldpNeighbor{local: local, at: at, device: chassis.Get("name").Scalar()}
			if n.device == "" && chassis.Get("id") == nil && chassis != nil && len(chassis.Keys) > 0 {
				n.device = chassis.Keys[0]
				chassis = chassis.Items[0]
			}
			id := port.Get("id")
			n.portType, n.port, n.descr = id.Get("type").Scalar(), id.Get("value").Scalar(), port.Get("descr").Scalar()
			n.speed = port.Get("auto-negotiation").Get("current").Scalar()
			capabilities := chassis.Get("capability")
			if capabilities != nil && capabilities.Kind == tree.Object {
				capabilities = &tree.Value{Kind: tree.List, Items: []*tree.Value{capabilities}}
			}
			if capabilities != nil {
				for _, c := range capabilities.Items {
					n.capability(c.Get("type").Scalar(), c.Get("enabled").Scalar() == "true")
				}
			}
			r.lldp(n)
		}
	}
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
		r.leftOut++
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
