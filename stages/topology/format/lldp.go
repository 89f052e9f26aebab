package format

import (
	"regexp"
	"strings"

	"parsimon/schema/tree"
	"parsimon/stages/topology"
)

// Neighbours of SONiC switches that their configurations do not list: what LLDP has found.

// managementPort matches the ports of a switch's own management.
var managementPort = regexp.MustCompile(`(?i)^(eth0$|mgmt|management|ma\d)`)

// lldpJSON reads the output of lldpctl -f json: lldp.interface is a list of objects, or one object, by local port.
func (r *sonicReader) lldpJSON(file string) {
	top := r.document(file, tree.JSON)
	if top.Value == nil {
		return
	}
	ports := top.Of("lldp").Of("interface")
	if ports.Value == nil {
		r.syntax(file, 1, "lldp.interface is missing: no neighbour was found, or this is "+
			"not lldpctl -f json")
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
		r.count(1, "cable", "left out: %s of the management and console networks")
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
	if v := r.of(sonicFileName(n.at.file), place{file: n.at.file, line: 1}); !v.listed {
		v.neighbors = append(v.neighbors, sonicNeighbor{n.local, n.device, n.port, bps, n.at})
	}
}

// lldpText reads "show lldp table", whose columns begin where their headers do, or "show lldp neighbors".
func (r *sonicReader) lldpText(file string) {
	var columns []int
	var n lldpNeighbor
	found := 0
	flush := func() {
		if n.local != "" {
			r.lldp(n)
			found++
		}
		n = lldpNeighbor{}
	}
	for i, line := range strings.Split(string(r.content(file)), "\n") {
		line = strings.TrimRight(line, "\r ")
		at := place{file: file, line: i + 1}
		switch {
		case strings.HasPrefix(line, "LocalPort"):
			for _, header := range []string{"LocalPort", "RemoteDevice", "RemotePortID", "Capability", "RemotePortDescr"} {
				columns = append(columns, max(0, strings.Index(line, header)))
			}
		case strings.HasPrefix(line, "---") || line == "":
		case strings.HasPrefix(line, "Total"):
			columns = nil
		case columns != nil:
			flush()
			cell := make([]string, len(columns))
			for k, from := range columns {
				to := len(line)
				if k+1 < len(columns) {
					to = min(to, columns[k+1])
				}
				cell[k] = strings.TrimSpace(line[min(from, to):to])
			}
			n = lldpNeighbor{local: cell[0], device: cell[1], port: cell[2], descr: cell[4], at: at}
			n.station, n.forwards = strings.Contains(cell[3], "S"), strings.ContainsAny(cell[3], "BR")
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
		r.syntax(file, 1, "lists no neighbour: want the output of show lldp table or "+
			"show lldp neighbors")
	}
}
