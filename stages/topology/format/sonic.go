package format

import (
	"cmp"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"parsimon/schema/tree"
	"parsimon/stages/topology"
)

// sonicTables are the tables of a configuration that are read. All others are skipped without parsing.
var sonicTables = []string{
	"DEVICE_METADATA",
	"DEVICE_NEIGHBOR",
	"DEVICE_NEIGHBOR_METADATA",
	"PORT",
	"CABLE_LENGTH",
	"WRED_PROFILE",
	"BUFFER_POOL",
	"BUFFER_PROFILE",
	"PORT_QOS_MAP",
	"DSCP_TO_TC_MAP",
	"TC_TO_QUEUE_MAP",
	"MAP_PFC_PRIORITY_TO_QUEUE",
	"SCHEDULER",
	"QUEUE",
	"lldp",
}

// sonicKinds maps SONiC's device types to kinds of nodes. Every other type is a switch.
var sonicKinds = map[string]string{
	"server": topology.KindHost, "torrouter": topology.KindTor, "backendtorrouter": topology.KindTor,
	"leafrouter": topology.KindFabric, "backendleafrouter": topology.KindFabric,
	"spinerouter": topology.KindSpine,
}

// sonicTypes are SONiC's device types by role, for messages.
var sonicTypes = map[string]string{topology.KindTor: "ToRRouter", topology.KindFabric: "LeafRouter",
	topology.KindSpine: "SpineRouter"}

func sonicKind(text string) string {
	if text == "" {
		return ""
	}
	return cmp.Or(sonicKinds[strings.ToLower(text)], topology.KindSwitch)
}

func sonicFiles(dir string) ([]string, error) {
	return glob(dir, "*.json", "*/*config_db.json", "*/*lldp*.json")
}

// readSONiC reads the configurations one by one, because a directory may have a thousand large ones. It then
// reads the neighbors that LLDP has found.
func readSONiC(d *draft) {
	r := &sonicReader{draft: d, switches: map[string]*sonicSwitch{}, byFile: map[string]*sonicSwitch{}}
	var found []string // by LLDP
	for _, file := range d.files {
		if slices.Contains(d.topLevelKeys(file), "lldp") {
			found = append(found, file)
		} else {
			r.config(file)
		}
	}
	for _, file := range found {
		r.readLLDP(file)
	}
	r.combine()
}

// sonicConvert is the command that converts a minigraph to a configuration.
const sonicConvert = "on the switch, sonic-cfggen -m minigraph.xml --print-data writes its config_db.json"

// A sonicSwitch is a switch with at least one file.
type sonicSwitch struct {
	name      string
	kind      string
	at        place
	ports     map[string]listing // links whose ends are not set
	alias     map[string]string  // alias → port
	heard     map[string]bool    // ports at which LLDP has found a neighbor
	neighbors []sonicNeighbor
	listed    bool // the configuration lists neighbors, so those of LLDP do not count
}

// A sonicNeighbor is a cable as listed by a switch. Speed 0 means the speed of the port.
type sonicNeighbor struct {
	listing
	descr string // the description that LLDP gives for the far port
}

type sonicReader struct {
	*draft
	switches map[string]*sonicSwitch
	byFile   map[string]*sonicSwitch // by the name that a file's path gives
	order    []*sonicSwitch
	kinds    []device // neighbors with a type
}

// of returns the switch that a file without a host name belongs to.
func (r *sonicReader) of(name string, at place) *sonicSwitch {
	if v := r.byFile[name]; v != nil {
		return v
	}
	v := r.switches[name]
	if v == nil {
		v = &sonicSwitch{name: name, at: at, ports: map[string]listing{}, alias: map[string]string{},
			heard: map[string]bool{}}
		r.switches[name] = v
		r.order = append(r.order, v)
	}
	return v
}

func (r *sonicReader) config(file string) {
	top := r.document(file, func(file string, data []byte) (tree.Field, error) {
		return tree.JSONOf(file, data, func(key string) bool { return slices.Contains(sonicTables, key) })
	})
	switch t := top.Value; {
	case t == nil:
		return
	case t.Get("DEVICE_METADATA") == nil && t.Get("DEVICE_NEIGHBOR") == nil:
		r.bad(top, "is not a SONiC configuration: it has neither DEVICE_METADATA nor DEVICE_NEIGHBOR")
		return
	}
	local := top.Value.Get("DEVICE_METADATA").Get("localhost")
	name := cmp.Or(strings.TrimSpace(local.Get("hostname").Scalar()), sonicFileName(file))
	at := lineOf(top)
	first := r.switches[name]
	if first != nil {
		r.fault(at, topology.FaultDoubled, "hostname %s is that of %s", name, first.at.file)
		return
	}
	v := r.of(name, at)
	v.kind = sonicKind(local.Get("type").Scalar())
	r.byFile[sonicFileName(file)] = v
	r.readPorts(v, top)
	r.readNeighbors(v, top)
	for name, f := range r.members(top.Of("DEVICE_NEIGHBOR_METADATA")) {
		r.kind(name, f.Value.Get("type").Scalar(), lineOf(f))
	}
	r.readSettings(v.name, top)
}

func (r *sonicReader) kind(name, text string, at place) {
	kind := sonicKind(text)
	if kind != "" {
		r.kinds = append(r.kinds, device{name: name, kind: kind, at: at})
	}
}

// sonicFileName returns the name of a switch from the name of its file: leaf1.json, leaf1_config_db.json or
// leaf1/config_db.json.
func sonicFileName(file string) string {
	base := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	for _, kind := range []string{"config_db", "lldp", "lldpctl"} {
		if base == kind {
			return filepath.Base(filepath.Dir(file))
		}
		if name, ok := strings.CutSuffix(base, kind); ok &&
			strings.ContainsAny(name[max(0, len(name)-1):], "_-.") {
			return name[:len(name)-1]
		}
	}
	return base
}

func (r *sonicReader) readPorts(v *sonicSwitch, top tree.Field) {
	for name, f := range r.members(top.Of("PORT")) {
		p := listing{delayNS: -1, down: strings.EqualFold(f.Value.Get("admin_status").Scalar(), "down")}
		speed := f.Of("speed")
		if speed.Value != nil {
			mbps, err := strconv.ParseInt(strings.TrimSuffix(speed.Value.Text, "M"), 10, 64)
			if err != nil || mbps < 1 || mbps > 10_000_000 {
				r.bad(speed, "is %s, want a speed in Mbps", speed.Value)
				mbps = unknownBps / 1e6
			}
			p.bps = mbps * 1e6
		}
		v.ports[name] = p
		alias := f.Value.Get("alias").Scalar()
		if alias != "" {
			v.alias[alias] = name
		}
	}
	for _, profile := range r.members(top.Of("CABLE_LENGTH")) {
		for name, length := range r.members(profile) {
			p, known := v.ports[name]
			delay, err := topology.LengthDelay(length.Value.Text, "")
			if err != nil {
				r.take(length.Fail(err))
			} else if known && delay > 0 { // 0m stands for a port without a cable
				p.delayNS = delay
				v.ports[name] = p
			}
		}
	}
}

// readNeighbors reads DEVICE_NEIGHBOR, whose keys are local ports ({name, port}) or neighbors ({local_port,
// port}).
func (r *sonicReader) readNeighbors(v *sonicSwitch, top tree.Field) {
	for key, f := range r.members(top.Of("DEVICE_NEIGHBOR")) {
		n := sonicNeighbor{listing: listing{a: end{v.name, key}, at: lineOf(f),
			b: end{f.Value.Get("name").Scalar(), f.Value.Get("port").Scalar()}}}
		local := f.Value.Get("local_port").Scalar()
		if local != "" {
			n.a.port, n.b.device = local, cmp.Or(n.b.device, key)
		}
		n.b.device = strings.TrimSpace(n.b.device)
		if n.b.device == "" {
			r.bad(f, "has neither name nor local_port")
			continue
		}
		v.neighbors = append(v.neighbors, n)
	}
	v.listed = len(v.neighbors) > 0
}

// combine turns the neighbors in all files into listings. A neighbor may name the far port by its alias. If
// the far switch has a file, the alias is replaced by the name of the port, so that both ends match. A switch
// that has a file is never a host, regardless of its number of cables.
func (r *sonicReader) combine() {
	s := listings{reports: func(device string) bool { return r.switches[device] != nil }}
	neighbor := map[string]bool{}
	for _, v := range r.order {
		kind := v.kind
		if kind == "" || kind == topology.KindHost {
			kind = topology.KindSwitch
		}
		s.devices = append(
			s.devices,
			device{name: v.name, kind: kind, stated: kind != topology.KindSwitch, at: v.at},
		)
		if len(v.neighbors) == 0 && !r.excluded(v.name) {
			r.fault(
				v.at,
				topology.FaultFormat,
				"%s has no neighbors (DEVICE_NEIGHBOR), so that its cables are unknown: put "+
					"the output of lldpctl -f json or json0 beside it, as %s/lldp.json; %s",
				v.name,
				v.name,
				sonicConvert,
			)
		}
		if v.listed {
			r.count(1, "switch", "switches: %s with a configuration")
		} else if len(v.neighbors) > 0 {
			r.count(1, "switch", "switches: %s with neighbors from LLDP")
		}
		for _, n := range v.neighbors {
			neighbor[n.b.device] = true
			s.all = append(s.all, r.listing(v, n))
		}
	}
	s.devices = append(s.devices, r.neighborKinds(neighbor)...)
	for _, v := range s.devices {
		text := sonicTypes[v.kind]
		if text != "" {
			r.count(1, "device",
				"roles: %s with type "+text+" in SONiC's files, called "+v.kind+" in tiers and in answers")
		}
	}
	r.assemble(&s)
}

// neighborKinds returns the kinds of neighbors that have no file, as stated in other files. It is a fault if
// two files state different kinds.
func (r *sonicReader) neighborKinds(cabled map[string]bool) (found []device) {
	kinds := map[string]string{}
	for _, k := range r.kinds {
		first := kinds[k.name]
		switch {
		case r.switches[k.name] != nil || !cabled[k.name]:
		case first == "":
			kinds[k.name] = k.kind
			k.stated = k.kind != topology.KindSwitch
			found = append(found, k)
		case first != k.kind:
			r.repair(
				k.at,
				topology.FaultContradictory,
				"%s is a %s here and a %s in another file",
				k.name,
				k.kind,
				first,
			)
		}
	}
	return found
}

// listing returns the cable to a neighbor, with the properties of the switch's port.
func (r *sonicReader) listing(v *sonicSwitch, n sonicNeighbor) listing {
	port, known := v.ports[n.a.port]
	if name, isAlias := v.alias[n.a.port]; !known && isAlias {
		n.a.port = name
		port, known = v.ports[name]
	}
	n.bps = cmp.Or(port.bps, n.bps)
	n.delayNS = port.delayNS
	n.down = port.down
	if !known {
		n.delayNS = -1
	}
	n.b.port = r.farPort(n)
	return n.listing
}

var (
	macAddress = regexp.MustCompile(`(?i)^([0-9a-f]{2}[:-]){5}[0-9a-f]{2}$|^([0-9a-f]{4}\.){2}[0-9a-f]{4}$`)
	oneNumber  = regexp.MustCompile(`^\d+$`)
)

// farPort returns the name of a neighbor's port. A name or an alias in the far switch's own file takes
// precedence: that of the id, then that of the description. A description is free text. Otherwise it is used
// only if it is a single word and the id is an address or a number.
func (r *sonicReader) farPort(n sonicNeighbor) string {
	far := r.switches[n.b.device]
	if far != nil {
		for _, text := range []string{n.b.port, n.descr} {
			name := far.portNamed(text)
			if name != "" {
				return name
			}
		}
	}
	nameless := n.b.port == "" || macAddress.MatchString(n.b.port) || oneNumber.MatchString(n.b.port)
	if nameless && n.descr != "" && !strings.ContainsAny(n.descr, " \t") {
		return n.descr
	}
	return n.b.port
}

// portNamed returns the port of a switch with a name or an alias, or "" if there is none.
func (v *sonicSwitch) portNamed(text string) string {
	if _, is := v.ports[text]; is || v.heard[text] {
		return text
	}
	return v.alias[text]
}

// readLLDP reads the output of lldpctl -f json or json0. In json, lldp.interface is a list of objects, or one
// object, by local port. In json0 every value is a list. Texts are objects with the key value, and an
// interface has its local port as name.
func (r *sonicReader) readLLDP(file string) {
	top := r.document(file, tree.JSON)
	if top.Value == nil {
		return
	}
	found := false
	for _, lldp := range listOrOne(top.Value.Get("lldp")) {
		ports := lldp.Get("interface")
		found = found || ports != nil
		for _, object := range listOrOne(ports) {
			name := textOf(object, "name")
			if name != "" && object.Get("chassis") != nil {
				r.neighbor(name, object, place{file: file, line: object.Line})
				continue
			}
			for i, local := range object.Keys {
				r.neighbor(local, object.Items[i], place{file: file, line: object.Items[i].Line})
			}
		}
	}
	if !found {
		r.syntax(
			file,
			1,
			"lldp.interface is missing: no neighbor was found, or this is not lldpctl -f json or json0",
		)
	}
}

// listOrOne returns the items of a list, or an object as the only item.
func listOrOne(t *tree.Value) []*tree.Value {
	switch {
	case t == nil:
		return nil
	case t.Kind == tree.Object:
		return []*tree.Value{t}
	}
	return t.Items
}

// firstOf returns a value of an object. In json0 it is the first item of a list.
func firstOf(t *tree.Value, key string) *tree.Value {
	v := t.Get(key)
	if v != nil && v.Kind == tree.List {
		if len(v.Items) == 0 {
			return nil
		}
		return v.Items[0]
	}
	return v
}

// textOf returns a text of an object. In json0 it is the value of its key value.
func textOf(t *tree.Value, key string) string {
	v := firstOf(t, key)
	if v != nil && v.Kind == tree.Object {
		v = firstOf(v, "value")
	}
	return v.Scalar()
}

// neighbor adds a neighbor that LLDP has found at a local port.
func (r *sonicReader) neighbor(local string, item *tree.Value, at place) {
	if managementPort.MatchString(local) || otherNetwork("", local) != "" {
		r.count(1, "cable", "left out: %s of the management and console networks")
		return
	}
	chassis := firstOf(item, "chassis")
	port := firstOf(item, "port")
	name := textOf(chassis, "name")
	if name == "" && chassis.Get("id") == nil && chassis != nil && len(chassis.Keys) > 0 {
		name = chassis.Keys[0]
		chassis = chassis.Items[0]
	}
	if name == "" {
		r.fault(
			at,
			topology.FaultFormat,
			"the neighbor at %s has no system name: LLDP gives no name for it",
			local,
		)
		return
	}
	label, _, _ := strings.Cut(name, ".")
	if r.switches[name] == nil && (r.switches[label] != nil || r.byFile[label] != nil) {
		name = r.of(label, at).name
	}
	n := sonicNeighbor{listing: listing{a: end{port: local}, b: end{name, textOf(port, "id")}, at: at},
		descr: textOf(port, "descr")}
	medium, _, _ := strings.Cut(textOf(firstOf(port, "auto-negotiation"), "current"), " ") // 25GbaseCR - long
	if bps, err := topology.ParseSpeed(strings.TrimSuffix(medium, ",")); err == nil {
		n.bps = bps
	}
	on := map[string]bool{} // capabilities
	for _, c := range listOrOne(chassis.Get("capability")) {
		on[strings.ToLower(textOf(c, "type"))] = textOf(c, "enabled") == "true"
	}
	if on["station"] && !on["bridge"] && !on["router"] {
		r.kinds = append(r.kinds, device{name: name, kind: topology.KindHost, at: at})
	}
	v := r.of(sonicFileName(at.file), place{file: at.file, line: 1})
	if !v.listed {
		n.a.device = v.name
		v.heard[local] = true
		v.neighbors = append(v.neighbors, n)
	}
}

// SwitchSettings are the settings of a switch for marking, buffers and flow control, under the names that its
// configuration uses.
type SwitchSettings struct {
	Switch string         `json:"switch"`
	File   string         `json:"file"`
	Taken  []TakenSetting `json:"taken"`
	// Queues has the queues of each port that classifies by DSCP, by name of the port.
	Queues []PortQueues `json:"-"`
}

// A TakenSetting is a value and its source.
type TakenSetting struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Unit   string `json:"unit,omitempty"`
	Key    string `json:"key"` // TABLE|object|field
	File   string `json:"file"`
	Line   int    `json:"line"`
	Number int64  `json:"-"` // the value, if it has a unit
	// Object has all numbers of the object that has the value, by field.
	Object map[string]int64 `json:"-"`
}

// sonicSettings are the fields of tables that are read, with their names and units. The thresholds of a
// WRED_PROFILE apply to green packets. These are marked (ECN) or dropped with a probability that rises from 0
// at a queue of marking_min to marking_max_probability at marking_max. Above that, all are.
var sonicSettings = []struct {
	table  string
	fields [][3]string // field, name, unit
}{
	{"WRED_PROFILE", [][3]string{{"ecn", "marking"}, {"green_min_threshold", "marking_min", "bytes"},
		{
			"green_max_threshold",
			"marking_max",
			"bytes",
		}, {"green_drop_probability", "marking_max_probability", "%"}}},
	{"BUFFER_POOL", [][3]string{{"size", "pool_size", "bytes"}, {"xoff", "pool_headroom", "bytes"}}},
	{"BUFFER_PROFILE", [][3]string{{"pool", "pool"}, {"size", "reserved", "bytes"}, {"xon", "xon", "bytes"},
		{"xoff", "xoff", "bytes"}, {"xon_offset", "xon_offset", "bytes"},
		{"dynamic_th", "dynamic_threshold", "log2"}, // the share alpha of the free pool is 2^dynamic_th
		{"static_th", "static_threshold", "bytes"}}},
}

// settingBounds are the minimum and the maximum of a setting, by its unit.
var settingBounds = map[string][2]int64{"bytes": {0, 1 << 60}, "%": {0, 100}, "log2": {-10, 10}}

func (d *draft) readSettings(name string, top tree.Field) {
	s := SwitchSettings{Switch: name, File: top.File}
	for _, t := range sonicSettings {
		for object, item := range d.members(top.Of(t.table)) {
			numbers := map[string]int64{}
			for _, k := range t.fields {
				f := item.Of(k[0])
				if f.Value == nil {
					continue
				}
				text := reference(f.Value.Text)
				number, err := strconv.ParseInt(text, 10, 64)
				bounds, isNumber := settingBounds[k[2]]
				switch {
				case isNumber && err != nil:
					d.bad(f, "is %s, want a whole number", f.Value)
				case isNumber && (number < bounds[0] || number > bounds[1]):
					d.bad(f, "is %s, must be %d to %d", f.Value, bounds[0], bounds[1])
				case text != "":
					numbers[k[0]] = number
					s.Taken = append(
						s.Taken,
						TakenSetting{k[1], text, k[2], t.table + "|" + object + "|" + k[0], f.File,
							f.Value.Line, number, numbers},
					)
				}
			}
		}
	}
	d.readQueues(&s, top)
	if len(s.Taken)+len(s.Queues) > 0 {
		d.Settings = append(d.Settings, s)
	}
}

// reference parses a value or the name of another object: NAME, or [TABLE|NAME] in older releases.
func reference(text string) string {
	text = strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")
	if _, name, ok := strings.Cut(text, "|"); ok {
		return name
	}
	return text
}

// A QueueSetting is a queue of a port.
type QueueSetting struct {
	DSCPs   uint64 // bit d: packets of DSCP d
	Weight  int64  // of a round robin; 0: strict priority
	MarkMin int64  // thresholds in bytes (green packets of its WRED_PROFILE); 0: it does not mark
	MarkMax int64
	PFC     bool
}

// PortQueues has the queues of a port, by number.
type PortQueues [8]QueueSetting

// readQueues reads the queues of the ports that classify by DSCP. The tables are described by
// sonic-yang-models and its doc/Configuration.md. A code point that is missing from the DSCP map of a port,
// or from map "global", has traffic class 0. A class that is missing from TC_TO_QUEUE_MAP has queue 0. A
// queue without a scheduler has weight 1 (the defaults of SAI).
func (d *draft) readQueues(s *SwitchSettings, top tree.Field) {
	dscps := d.numberMaps(
		top.Of("DSCP_TO_TC_MAP"),
		63,
		15,
	)
	queues := d.numberMaps(
		top.Of("TC_TO_QUEUE_MAP"),
		15,
		7,
	)
	pfcQueues := d.numberMaps(top.Of("MAP_PFC_PRIORITY_TO_QUEUE"), 7, 7)
	chosen := top.Of("PORT_QOS_MAP")
	ports := map[string]*PortQueues{}
	global, classified := find(d, chosen.Of("global").Of("dscp_to_tc_map"), "DSCP_TO_TC_MAP", dscps)
	for list, f := range d.members(chosen) {
		classOf, own := find(d, f.Of("dscp_to_tc_map"), "DSCP_TO_TC_MAP", dscps)
		if !own {
			classOf = global
		}
		queueOf, _ := find(d, f.Of("tc_to_queue_map"), "TC_TO_QUEUE_MAP", queues)
		pfcQueueOf, _ := find(d, f.Of("pfc_to_queue_map"), "MAP_PFC_PRIORITY_TO_QUEUE", pfcQueues)
		var p PortQueues
		for i := range p {
			p[i].Weight = 1
		}
		for dscp := range 64 {
			p[queueOf[classOf[dscp]]].DSCPs |= 1 << dscp
		}
		for _, priority := range d.pfcPriorities(s, list, f.Of("pfc_enable")) {
			if queue, mapped := pfcQueueOf[priority]; mapped {
				priority = queue
			}
			p[priority].PFC = true
		}
		if f.Value.Get("dot1p_to_tc_map") != nil {
			d.count(1, "port", "left out: dot1p_to_tc_map of %s (classes are by DSCP)")
		}
		for port := range strings.SplitSeq(list, ",") {
			if (own || classified) && port != "global" {
				of := p
				ports[port] = &of
			}
		}
	}
	d.readQueueTable(s, top, ports)
	for _, port := range slices.Sorted(maps.Keys(ports)) {
		s.Queues = append(s.Queues, *ports[port])
	}
}

// readQueueTable reads schedulers and marking thresholds of the queues of some ports.
func (d *draft) readQueueTable(s *SwitchSettings, top tree.Field, ports map[string]*PortQueues) {
	schedulers := d.schedulers(top.Of("SCHEDULER"))
	marks := markingThresholds(s, top.Of("WRED_PROFILE"))
	for key, f := range d.members(top.Of("QUEUE")) {
		weight, scheduled := find(d, f.Of("scheduler"), "SCHEDULER", schedulers)
		mark, marked := find(d, f.Of("wred_profile"), "WRED_PROFILE", marks)
		list, span, ok := strings.Cut(key, "|")
		if strings.Contains(span, "|") || list == "CPU" {
			d.count(1, "row", "left out: %s of QUEUE, of the CPU or of system ports")
			continue
		}
		lo, hi, numbers := topology.Span(span)
		if !ok || !numbers {
			d.bad(f, "want PORTS|QUEUE or PORTS|FIRST-LAST")
			continue
		}
		if hi > 7 {
			d.count(1, "row", "left out: queues above 7 in %s of QUEUE")
		}
		for port := range strings.SplitSeq(list, ",") {
			if ports[port] == nil {
				continue
			}
			for q := lo; q <= min(hi, 7); q++ {
				of := &ports[port][q]
				if scheduled {
					of.Weight = weight
				}
				if marked {
					of.MarkMin = mark[0]
					of.MarkMax = mark[1]
				}
			}
		}
	}
}

// markingThresholds returns the thresholds in bytes of each WRED profile, 0 if it does not mark.
func markingThresholds(s *SwitchSettings, profiles tree.Field) map[string][2]int64 {
	marks := map[string][2]int64{}
	if profiles.Value != nil {
		for _, name := range profiles.Value.Keys {
			marks[name] = [2]int64{}
		}
	}
	for _, k := range s.Taken {
		if k.Name == "marking" && k.Value != "ecn_none" {
			least := k.Object["green_min_threshold"]
			marks[strings.Split(k.Key, "|")[1]] = [2]int64{least, max(least, k.Object["green_max_threshold"])}
		}
	}
	return marks
}

// schedulers reads the weights in SCHEDULER. Weight 0 means strict priority.
func (d *draft) schedulers(f tree.Field) map[string]int64 {
	weights := map[string]int64{}
	for name, s := range d.members(f) {
		weight := int64(1)
		of := s.Of("weight")
		if of.Value != nil {
			d.take(tree.ReadInt(&weight, 1, 100)(of))
		}
		switch of := s.Of("type"); strings.ToUpper(of.Value.Scalar()) {
		case "STRICT":
			weight = 0
		case "DWRR":
		case "WRR", "":
			d.count(1, "scheduler", "weights of %s count bytes (DWRR) instead of packets (WRR)")
		default:
			d.bad(of, "is %s, want STRICT, DWRR or WRR", of.Value)
		}
		if s.Value.Get("pir") != nil || s.Value.Get("cir") != nil {
			d.count(1, "scheduler", "left out: the rates (pir, cir) of %s")
		}
		weights[name] = weight
	}
	return weights
}

// numberMaps reads a table of maps from numbers to numbers, each with its maximum.
func (d *draft) numberMaps(f tree.Field, maxKey, maxValue int) map[string]map[int]int {
	all := map[string]map[int]int{}
	for name, object := range d.members(f) {
		all[name] = map[int]int{}
		for key, item := range d.members(object) {
			from, err := strconv.Atoi(key)
			if err != nil || from < 0 || from > maxKey {
				d.bad(item, "the key must be 0 to %d", maxKey)
				continue
			}
			to := 0 // even if it is invalid
			d.take(tree.ReadInt(&to, 0, maxValue)(item))
			all[name][from] = to
		}
	}
	return all
}

// find returns the object of a table that a field names. It returns false if the field is missing, or if
// there is no such object, which is a fault.
func find[T any](d *draft, f tree.Field, table string, in map[string]T) (object T, ok bool) {
	if f.Value == nil {
		return object, false
	}
	if object, ok = in[reference(f.Value.Text)]; !ok {
		d.bad(f, "is %s, and %s has no such object", f.Value, table)
	}
	return object, ok
}

// pfcPriorities reads the priorities of a port that use PFC: numbers from 0 to 7, separated by commas.
func (d *draft) pfcPriorities(s *SwitchSettings, port string, f tree.Field) (list []int) {
	if f.Value == nil || f.Value.Text == "" {
		return nil
	}
	for one := range strings.SplitSeq(f.Value.Text, ",") {
		priority, err := strconv.ParseUint(strings.TrimSpace(one), 10, 8)
		if err != nil || priority > 7 {
			d.bad(f, "is %s, want priorities from 0 to 7", f.Value)
			return nil
		}
		list = append(list, int(priority))
	}
	d.count(1, "row", "pfc_enable in %s of PORT_QOS_MAP: --switch-buffer with --pfc simulates it")
	s.Taken = append(s.Taken, TakenSetting{Name: "pfc_priorities", Value: f.Value.Text,
		Key: "PORT_QOS_MAP|" + port + "|pfc_enable", File: f.File, Line: f.Value.Line})
	return list
}
