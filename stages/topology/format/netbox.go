package format

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"parsimon/schema/names"
	"parsimon/stages/topology"
)

// terminations returns the ends in a cell of devices and a cell of ports, as NetBox exports a cable with
// several terminations: "leaf1" with "Ethernet1,Ethernet2", or "srv1,srv2" with "eth0,eth0". NetBox writes
// each device once, and both lists in any order. With several devices and different ports, the owner of a
// port is therefore unknown.
func terminations(e end) (ends []end) {
	devices := strings.Split(e.device, ",")
	ports := strings.Split(e.port, ",")
	for i := range max(len(devices), len(ports)) {
		one := end{
			strings.TrimSpace(devices[min(i, len(devices)-1)]),
			strings.TrimSpace(ports[min(i, len(ports)-1)]),
		}
		if len(devices) > 1 && slices.ContainsFunc(ports, func(p string) bool { return p != ports[0] }) {
			one.port = ""
		}
		ends = append(ends, one)
	}
	return ends
}

// connections returns the ends in a cell of NetBox's column Connection: "DEVICE > PORT", separated by commas.
func connections(text string) (ends []end) {
	for piece := range strings.SplitSeq(text, ", ") {
		device, port, both := strings.Cut(piece, " > ")
		n := len(ends)
		if !both && n > 0 {
			ends[n-1].port += ", " + piece
			continue
		}
		ends = append(ends, end{strings.TrimSpace(device), strings.TrimSpace(port)})
	}
	return ends
}

var (
	// panelPort matches ports of patch panels.
	panelPort = regexp.MustCompile(`(?i)^(front|rear)([ _-]?port)?[ _-]?\d`)
	// shortPanelPort matches short names of front ports (F1, FP1) and rear ports (R1, RP1). Other devices may
	// have such ports, so they are evidence only if a device has both and no other ports.
	shortPanelPort = regexp.MustCompile(`(?i)^([fr])p?[ _-]?\d+$`)
	// panelWords are words that occur in names of patch panels.
	panelWords = []string{"panel", "patch", "patchpanel", "odf", "cassette"}
	lastNumber = regexp.MustCompile(`(\d+)\D*$`)
)

// panels returns the devices that are patch panels, according to the types of their ports, the names of their
// ports, or their own names. A device that the options give another role is not a panel.
func (r *cablingReader) panels() []string {
	found := map[string]bool{}
	short := map[string]map[string]bool{} // by device: the short forms of its ports, f, r or "" for others
	for _, c := range r.cables {
		for _, e := range []end{c.a, c.b} {
			if r.side[e] != "" || panelPort.MatchString(e.port) || named(e.device, panelWords) {
				found[e.device] = true
			}
			form := ""
			m := shortPanelPort.FindStringSubmatch(e.port)
			if m != nil {
				form = strings.ToLower(m[1])
			}
			if short[e.device] == nil {
				short[e.device] = map[string]bool{}
			}
			short[e.device][form] = true
		}
	}
	for device, forms := range short {
		if forms["f"] && forms["r"] && len(forms) == 2 {
			found[device] = true
		}
	}
	if len(found) == 0 {
		return nil
	}
	listed := r.listedDevices()
	for device := range found {
		if listed[device] || matchesAny(device, r.o.HostPatterns) || matchesAny(device, r.o.Exclude) {
			delete(found, device)
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// listedDevices returns the devices of the node list. Its faults are reported when roles are inferred.
func (r *cablingReader) listedDevices() map[string]bool {
	listed := map[string]bool{}
	if r.o.NodeList == "" {
		return listed
	}
	t := openTable(newDraft(r.source, r.o), r.o.NodeList, listDevice)
	for i := 0; t != nil && i < len(t.rows); i++ {
		listed[t.cell(i, listDevice)] = true
	}
	return listed
}

// A panelPlace is a position of a patch panel: the front port and the rear port with the same number.
type panelPlace struct{ panel, number string }

// panelPlaceOf returns the position of a panel's port: its last number, otherwise its name.
func panelPlaceOf(e end) panelPlace {
	m := lastNumber.FindStringSubmatch(e.port)
	if m != nil {
		return panelPlace{e.device, strings.TrimLeft(m[1], "0")}
	}
	return panelPlace{e.device, e.port}
}

// followPanels replaces the two cables at the front and rear ports of each position by one connection. Its
// speed is the lower of both, and its delay is their sum. Front and rear ports have the same number. If a
// rear port has a cable and its front port has none, the cable is omitted. The opposite is a fault, because
// omitting the cable could hide a connection.
func (r *cablingReader) followPanels() {
	panels := r.panels()
	if len(panels) == 0 {
		return
	}
	at := map[panelPlace][]*listedCable{}
	for i := range r.cables {
		c := &r.cables[i]
		for _, e := range []end{c.a, c.b} {
			if slices.Contains(panels, e.device) {
				place := panelPlaceOf(e)
				at[place] = append(at[place], c)
			}
		}
	}
	order := slices.SortedFunc(maps.Keys(at), func(a, b panelPlace) int {
		return cmp.Or(topology.CompareNatural(a.panel, b.panel), topology.CompareNatural(a.number, b.number))
	})
	into := map[*listedCable]*listedCable{} // cables that are part of another, or omitted
	followed := 0
	for _, place := range order {
		if r.followPlace(place, at[place], into) {
			followed++
		}
	}
	kept := make([]listedCable, 0, len(r.cables))
	for i := range r.cables {
		_, gone := into[&r.cables[i]]
		if !gone {
			kept = append(kept, r.cables[i])
		}
	}
	r.cables = kept
	r.note(
		"panels: %s followed through %s (%s); --nodes with a role for it, or --exclude, decides otherwise",
		topology.Count(
			followed,
			"connection",
		),
		topology.Count(len(panels), "patch panel"),
		names.Listed(panels, 5),
	)
}

// followPlace joins the two cables at a position, and reports whether it did. into maps a joined cable to the
// connection that contains it, and an omitted cable to itself.
func (r *cablingReader) followPlace(
	place panelPlace,
	cables []*listedCable,
	into map[*listedCable]*listedCable,
) bool {
	present := cables[:0]
	for _, c := range cables {
		for into[c] != nil && into[c] != c {
			c = into[c]
		}
		if into[c] == c {
			continue // left out
		}
		if panelPlaceOf(c.b) != place {
			c.a, c.b = c.b, c.a
		}
		present = append(present, c)
	}
	cables = present
	if len(cables) == 0 {
		return false
	}
	first := cables[0]
	port := first.b
	what := fmt.Sprintf("%d cables end at ports of that number", len(cables))
	switch {
	case len(cables) == 2 && first == cables[1]:
		what = "the cable ends where it begins"
	case len(cables) == 2:
		second := cables[1]
		first.b = second.a
		first.down = first.down || second.down
		first.planned = first.planned || second.planned
		first.lanes = max(first.lanes, second.lanes)
		first.bps = min(cmp.Or(first.bps, second.bps), cmp.Or(second.bps, first.bps))
		if second.delayNS >= 0 {
			first.delayNS = max(first.delayNS, 0) + second.delayNS
		}
		into[second] = first
		return true
	case len(cables) == 1 && (r.side[port] == "rear" || strings.HasPrefix(strings.ToLower(port.port), "rear")):
		into[first] = first
		r.leaveOut("cables at rear ports of patch panels from which no other cable leads on")
		return false
	case len(cables) == 1:
		what = "no cable leads on from there"
	}
	for _, c := range cables {
		into[c] = c
	}
	r.fault(
		first.at,
		topology.FaultStatus,
		"%s may be a port of a patch panel, and %s: list interface connections, or say "+
			"with --nodes what %s is",
		port,
		what,
		port.device,
	)
	return false
}
