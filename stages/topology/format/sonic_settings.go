package format

import (
	"reflect"
	"strconv"
	"strings"

	"parsimon/schema/tree"
)

// SwitchSettings are what a switch's configuration says about marking, buffers and flow control, in
// the switch's own terms.
type SwitchSettings struct {
	Switch   string          `json:"switch"`
	File     string          `json:"file"`
	Marking  []MarkingRule   `json:"marking,omitempty"`
	Pools    []BufferPool    `json:"pools,omitempty"`
	Profiles []BufferProfile `json:"profiles,omitempty"`
	PFC      []PFCPorts      `json:"pfc,omitempty"`
	// Taken lists every value above with its file, line and key.
	Taken []TakenSetting `json:"taken,omitempty"`
}

// A MarkingRule is a WRED profile: packets are marked (ECN) or dropped with a probability that rises
// from 0 at a queue of MinBytes to MaxPercent at MaxBytes, and always above MaxBytes. The thresholds
// are those of green packets.
type MarkingRule struct {
	Profile    string   `json:"profile"`
	ECN        string   `json:"ecn" sonic:"ecn,marking"` // ecn_none, ecn_green, … ecn_all
	MinBytes   int64    `json:"min_bytes" sonic:"green_min_threshold,marking_min,bytes"`
	MaxBytes   int64    `json:"max_bytes" sonic:"green_max_threshold,marking_max,bytes"`
	MaxPercent int64    `json:"max_percent" sonic:"green_drop_probability,marking_max_probability,%"`
	Queues     []string `json:"queues,omitempty"` // "ports|queue" that use the profile
}

// A BufferPool is memory that ports share.
type BufferPool struct {
	Name      string `json:"name"`
	Direction string `json:"direction" sonic:"type"` // ingress or egress
	Mode      string `json:"mode" sonic:"mode"`      // static or dynamic
	SizeBytes int64  `json:"size_bytes" sonic:"size,pool_size,bytes"`
	XoffBytes int64  `json:"xoff_bytes,omitempty" sonic:"xoff,pool_headroom,bytes"` // headroom pool
}

// A BufferProfile is a port's or a priority group's share of a pool.
type BufferProfile struct {
	Name        string `json:"name"`
	Pool        string `json:"pool" sonic:"pool"`
	SizeBytes   int64  `json:"size_bytes" sonic:"size,reserved,bytes"`
	XonBytes    int64  `json:"xon_bytes,omitempty" sonic:"xon,xon,bytes"`
	XoffBytes   int64  `json:"xoff_bytes,omitempty" sonic:"xoff,xoff,bytes"` // headroom behind the pause threshold
	XonOffset   int64  `json:"xon_offset_bytes,omitempty" sonic:"xon_offset,xon_offset,bytes"`
	DynamicTh   *int64 `json:"dynamic_th,omitempty" sonic:"dynamic_th,dynamic_threshold,log2"` // alpha = 2^DynamicTh
	StaticBytes *int64 `json:"static_bytes,omitempty" sonic:"static_th,static_threshold,bytes"`
}

// PFCPorts are ports with priority flow control.
type PFCPorts struct {
	Ports      string `json:"ports"` // comma-separated
	Priorities []int  `json:"priorities"`
}

// A TakenSetting is one value and where it comes from.
type TakenSetting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Unit  string `json:"unit,omitempty"`
	Key   string `json:"key"` // TABLE|object|field
	File  string `json:"file"`
	Line  int    `json:"line"`
}

type settingsReader struct {
	*draft
	top tree.Field
	out *SwitchSettings
}

// readSettings reads the settings of one configuration; nil where it has none.
func (d *draft) readSettings(name string, top tree.Field) *SwitchSettings {
	s := settingsReader{d, top, &SwitchSettings{Switch: name, File: top.File}}
	queues := map[string][]string{}
	for key, item := range d.members(top.Of("QUEUE")) {
		if profile := reference(item.Value.Get("wred_profile").Scalar()); profile != "" {
			queues[profile] = append(queues[profile], key)
		}
	}
	eachRow(&s, "WRED_PROFILE", func(key string, m MarkingRule) {
		m.Profile, m.Queues = key, queues[key]
		s.out.Marking = append(s.out.Marking, m)
	})
	eachRow(&s, "BUFFER_POOL", func(key string, p BufferPool) {
		p.Name = key
		s.out.Pools = append(s.out.Pools, p)
	})
	eachRow(&s, "BUFFER_PROFILE", func(key string, p BufferProfile) {
		p.Name = key
		s.out.Profiles = append(s.out.Profiles, p)
	})
	type qos struct {
		PFC string `sonic:"pfc_enable,pfc_priorities"`
	}
	eachRow(&s, "PORT_QOS_MAP", func(key string, q qos) {
		p := PFCPorts{Ports: key}
		for one := range strings.SplitSeq(q.PFC, ",") {
			priority, err := strconv.Atoi(strings.TrimSpace(one))
			if q.PFC != "" && (err != nil || priority < 0 || priority > 7) {
				d.bad(top.Of("PORT_QOS_MAP").Of(key).Of("pfc_enable"), "is %q, want priorities from 0 to 7", q.PFC)
				return
			}
			p.Priorities = append(p.Priorities, priority)
		}
		if q.PFC != "" {
			s.out.PFC = append(s.out.PFC, p)
		}
	})
	if len(s.out.Taken) == 0 {
		return nil
	}
	return s.out
}

// eachRow calls do with the objects of a table. Fields of T have the tag sonic:"KEY,SETTING,UNIT": the key in the
// object, and how TakenSetting names the value; without a setting, it is not listed there.
func eachRow[T any](s *settingsReader, table string, do func(key string, row T)) {
	for key, item := range s.members(s.top.Of(table)) {
		if item.Value.Kind != tree.Object {
			continue
		}
		var row T
		for i, field := range reflect.VisibleFields(reflect.TypeFor[T]()) {
			tag := append(strings.Split(field.Tag.Get("sonic"), ","), "", "")
			f := item.Of(tag[0])
			if tag[0] == "" || f.Value == nil || !s.set(reflect.ValueOf(&row).Elem().Field(i), f) || tag[1] == "" {
				continue
			}
			s.out.Taken = append(s.out.Taken, TakenSetting{tag[1], f.Value.Text, tag[2], table + "|" + key + "|" + tag[0],
				f.File, f.Value.Line})
		}
		do(key, row)
	}
}

// set gives a text or a whole number, which SONiC writes as a string, to a field of a row.
func (s *settingsReader) set(to reflect.Value, f tree.Field) bool {
	if to.Kind() == reflect.String {
		to.SetString(reference(f.Value.Text))
		return true
	}
	v, err := strconv.ParseInt(f.Value.Text, 10, 64)
	if err != nil {
		s.bad(f, "is %s, want a whole number", f.Value)
		return false
	}
	if to.Kind() == reflect.Pointer {
		to.Set(reflect.ValueOf(&v))
	} else {
		to.SetInt(v)
	}
	return true
}

// reference reads the name of another object: NAME, or [TABLE|NAME] in older releases.
func reference(text string) string {
	text = strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")
	if _, name, ok := strings.Cut(text, "|"); ok {
		return name
	}
	return text
}
