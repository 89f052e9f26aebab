package format

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"parsimon/schema/tree"
	"parsimon/stages/topology"
)

// SwitchSettings are what a switch's configuration says about marking, buffers and flow control, in
// the switch's own terms.
type SwitchSettings struct {
	Switch string         `json:"switch"`
	File   string         `json:"file"`
	Taken  []TakenSetting `json:"taken"`
	// Queues are those of each port that classifies by DSCP, by the names of the ports.
	Queues []PortQueues `json:"-"`
}

// A TakenSetting is one value and where it comes from.
type TakenSetting struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Unit   string `json:"unit,omitempty"`
	Key    string `json:"key"` // TABLE|object|field
	File   string `json:"file"`
	Line   int    `json:"line"`
	Number int64  `json:"-"` // the value, where it has a unit
	// Object are the numbers of the object that the value is of, by field.
	Object map[string]int64 `json:"-"`
}

// sonicSettings are the fields of tables that are taken, with their names and units. The thresholds of a WRED_PROFILE
// are those of green packets: they are marked (ECN) or dropped with a probability that rises from 0 at a queue of
// marking_min to marking_max_probability at marking_max, and always above.
var sonicSettings = []struct {
	table  string
	fields [][3]string // field, name, unit
}{
	{"WRED_PROFILE", [][3]string{{"ecn", "marking"}, {"green_min_threshold", "marking_min", "bytes"},
		{"green_max_threshold", "marking_max", "bytes"}, {"green_drop_probability", "marking_max_probability", "%"}}},
	{"BUFFER_POOL", [][3]string{{"size", "pool_size", "bytes"}, {"xoff", "pool_headroom", "bytes"}}},
	{"BUFFER_PROFILE", [][3]string{{"pool", "pool"}, {"size", "reserved", "bytes"}, {"xon", "xon", "bytes"},
		{"xoff", "xoff", "bytes"}, {"xon_offset", "xon_offset", "bytes"},
		{"dynamic_th", "dynamic_threshold", "log2"}, // the share alpha of the free pool is 2^dynamic_th
		{"static_th", "static_threshold", "bytes"}}},
}

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
				switch {
				case err != nil && k[2] != "":
					d.bad(f, "is %s, want a whole number", f.Value)
				case text != "":
					numbers[k[0]] = number
					s.Taken = append(s.Taken, TakenSetting{k[1], text, k[2], t.table + "|" + object + "|" + k[0], f.File,
						f.Value.Line, number, numbers})
				}
			}
		}
	}
	d.readQueues(&s, top)
	if len(s.Taken)+len(s.Queues) > 0 {
		d.settings = append(d.settings, s)
	}
}

// reference reads a value or the name of another object: NAME, or [TABLE|NAME] in older releases.
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

// PortQueues are the queues of a port, by number.
type PortQueues [8]QueueSetting

// readQueues reads the queues of the ports that classify by DSCP. The tables are described by sonic-yang-models and its
// doc/Configuration.md. What the DSCP map of a port, or that of "global", does not have is traffic class 0, and what
// its TC_TO_QUEUE_MAP does not have is queue 0; a queue without a scheduler has weight 1 (the defaults of SAI).
func (d *draft) readQueues(s *SwitchSettings, top tree.Field) {
	dscps, queues := d.numberMaps(top.Of("DSCP_TO_TC_MAP"), 63, 15), d.numberMaps(top.Of("TC_TO_QUEUE_MAP"), 15, 7)
	pfcQueues := d.numberMaps(top.Of("MAP_PFC_PRIORITY_TO_QUEUE"), 7, 7)
	chosen, ports := top.Of("PORT_QOS_MAP"), map[string]*PortQueues{}
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

// readQueueTable reads schedulers and marking thresholds of queues, for the ports given.
func (d *draft) readQueueTable(s *SwitchSettings, top tree.Field, ports map[string]*PortQueues) {
	schedulers, marks := d.schedulers(top.Of("SCHEDULER")), map[string][2]int64{}
	if t := top.Value.Get("WRED_PROFILE"); t != nil {
		for _, name := range t.Keys {
			marks[name] = [2]int64{}
		}
	}
	for _, k := range s.Taken {
		if k.Name == "marking" && k.Value != "ecn_none" {
			least := k.Object["green_min_threshold"]
			marks[strings.Split(k.Key, "|")[1]] = [2]int64{least, max(least, k.Object["green_max_threshold"])}
		}
	}
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
			for q := lo; q <= min(hi, 7) && ports[port] != nil; q++ {
				of := &ports[port][q]
				if scheduled {
					of.Weight = weight
				}
				if marked {
					of.MarkMin, of.MarkMax = mark[0], mark[1]
				}
			}
		}
	}
}

// schedulers reads the weights of SCHEDULER; 0 stands for strict priority.
func (d *draft) schedulers(f tree.Field) map[string]int64 {
	weights := map[string]int64{}
	for name, s := range d.members(f) {
		weight := int64(1)
		if of := s.Of("weight"); of.Value != nil {
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

// numberMaps reads a table of maps from numbers to numbers, each up to a maximum.
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
			to := 0 // also where it is bad
			d.take(tree.ReadInt(&to, 0, maxValue)(item))
			all[name][from] = to
		}
	}
	return all
}

// find finds the object of a table that a field names; false if the field is missing, or names none, which is a fault.
func find[T any](d *draft, f tree.Field, table string, in map[string]T) (object T, ok bool) {
	if f.Value == nil {
		return object, false
	}
	if object, ok = in[reference(f.Value.Text)]; !ok {
		d.bad(f, "is %s, and %s has no such object", f.Value, table)
	}
	return object, ok
}

// pfcPriorities reads the priorities of a port with PFC: numbers from 0 to 7 with commas between, or none.
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
