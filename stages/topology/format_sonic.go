package topology

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

const sonicDoc = `
SONiC configurations: a directory with one config_db.json per switch (leaf1.json, or
leaf1/config_db.json), or one such file. Cables come from DEVICE_NEIGHBOR, with either the local port
or the neighbour as the key; speeds from PORT, in Mbps; delays from CABLE_LENGTH at 5 ns/m; roles from
DEVICE_METADATA and DEVICE_NEIGHBOR_METADATA (type Server is a host). A cable between two switches of
the directory must be in the files of both. WRED_PROFILE, BUFFER_POOL, BUFFER_PROFILE and PORT_QOS_MAP
(PFC) are listed as switch settings. A run takes the marking thresholds from them (dctcp, dcqcn; unless
its scenario file states them), --switch-buffer topology the buffers; log lines say from which key of
which file.

  {"DEVICE_METADATA": {"localhost": {"hostname": "leaf1", "type": "ToRRouter"}},
   "PORT": {"Ethernet0": {"speed": "25000"}, "Ethernet48": {"speed": "100000"}},
   "DEVICE_NEIGHBOR": {"Ethernet0":  {"name": "web1", "port": "eth0"},
                       "Ethernet48": {"name": "spine1", "port": "Ethernet0"}},
   "DEVICE_NEIGHBOR_METADATA": {"web1": {"type": "Server"}, "spine1": {"type": "LeafRouter"}},
   "CABLE_LENGTH": {"AZURE": {"Ethernet0": "5m", "Ethernet48": "40m"}},
   "WRED_PROFILE": {"AZURE_LOSSLESS": {"ecn": "ecn_all", "green_min_threshold": "250000",
     "green_max_threshold": "1048576", "green_drop_probability": "5"}}}`

// sonicTables are the tables of a configuration that are read; the others are skipped unparsed.
var sonicTables = []string{"DEVICE_METADATA", "DEVICE_NEIGHBOR", "DEVICE_NEIGHBOR_METADATA", "PORT", "CABLE_LENGTH",
	"WRED_PROFILE", "QUEUE", "BUFFER_POOL", "BUFFER_PROFILE", "PORT_QOS_MAP"}

// sonicKinds maps SONiC's device types to kinds of nodes. Every other type is a switch.
var sonicKinds = map[string]string{
	"server": KindHost, "torrouter": KindTor, "backendtorrouter": KindTor, "leafrouter": KindFabric,
	"backendleafrouter": KindFabric, "spinerouter": KindSpine,
}

func sonicKind(t *tree) string {
	text := scalar(t)
	if text == "" {
		return ""
	}
	if kind := sonicKinds[strings.ToLower(text)]; kind != "" {
		return kind
	}
	return KindSwitch
}

func sonicFiles(dir string) ([]string, error) {
	var files []string
	for _, pattern := range []string{"*.json", "*/*config_db.json"} {
		found, err := filepath.Glob(filepath.Join(escapeGlob(dir), pattern))
		if err != nil {
			return nil, fmt.Errorf("topology %s: %w", dir, err)
		}
		files = append(files, found...)
	}
	slices.Sort(files)
	return files, nil
}

// detectSONiC looks at one file for the tables that a switch with neighbours has.
func detectSONiC(s *source) bool {
	if extension(s.files[0]) != ".json" {
		return false
	}
	keys := topLevelKeys(s.content(s.files[0]))
	return slices.Contains(keys, "DEVICE_NEIGHBOR") || slices.Contains(keys, "DEVICE_METADATA") ||
		slices.Contains(keys, "PORT")
}

// readSONiC reads one file at a time and releases it, since a directory may hold a thousand.
func readSONiC(s *source, o *Options) (*draft, error) {
	r := &sonicReader{draft: &draft{}, switches: map[string]*sonicSwitch{}}
	for _, file := range s.files {
		data, err := s.read(file)
		if err != nil {
			return nil, err
		}
		r.file(file, data)
		s.release(file)
	}
	r.combine(o)
	return r.draft, nil
}

// A sonicSwitch is one configuration file.
type sonicSwitch struct {
	name      string
	kind      string
	at        place
	ports     map[string]sonicPort
	alias     map[string]string // alias → port
	neighbors []sonicNeighbor
}

type sonicPort struct {
	bps     int64
	delayNS int64 // -1: unknown
	down    bool
}

type sonicNeighbor struct {
	local, device, port string
	at                  place
}

type sonicReader struct {
	*draft
	switches map[string]*sonicSwitch
	order    []*sonicSwitch
	kinds    []device // neighbours with a type
}

// file reads one configuration.
func (r *sonicReader) file(file string, data []byte) {
	t, fault := parseJSONTree(file, data, func(key string) bool { return slices.Contains(sonicTables, key) })
	if fault != nil {
		r.faults = append(r.faults, *fault)
		return
	}
	reader := &treeReader{draft: r.draft, file: file}
	if t.get("DEVICE_METADATA") == nil && t.get("DEVICE_NEIGHBOR") == nil {
		reader.bad(t, "", "is not a SONiC configuration: it has neither DEVICE_METADATA nor DEVICE_NEIGHBOR")
		return
	}
	local := t.get("DEVICE_METADATA").get("localhost")
	v := &sonicSwitch{name: strings.TrimSpace(scalar(local.get("hostname"))), kind: sonicKind(local.get("type")),
		at: place{file: file, line: t.line}}
	if v.name == "" {
		v.name = sonicFileName(file)
	}
	if first, again := r.switches[v.name]; again {
		r.fault(v.at, FaultDoubled, "hostname %s is that of %s", v.name, first.at.file)
		return
	}
	r.switches[v.name] = v
	r.order = append(r.order, v)
	v.readPorts(reader, t)
	v.readNeighbors(reader, t.get("DEVICE_NEIGHBOR"))
	r.readKinds(reader, t.get("DEVICE_NEIGHBOR_METADATA"))
	if settings := readSettings(reader, v.name, t); settings != nil {
		r.settings = append(r.settings, *settings)
	}
}

// sonicFileName is the name of a switch by its file: leaf1.json, leaf1_config_db.json or
// leaf1/config_db.json.
func sonicFileName(file string) string {
	base := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	if base == "config_db" {
		return filepath.Base(filepath.Dir(file))
	}
	return strings.TrimSuffix(base, "_config_db")
}

// readPorts reads the speed, the status and the cable length of each port.
func (v *sonicSwitch) readPorts(r *treeReader, t *tree) {
	v.ports, v.alias = map[string]sonicPort{}, map[string]string{}
	if ports := t.get("PORT"); ports != nil && r.object(ports, "PORT") {
		for i, name := range ports.keys {
			p := sonicPort{delayNS: -1}
			item := ports.items[i]
			if speed := item.get("speed"); speed != nil {
				mbps, err := parseQuantity(speed.text, []unit{{"M", 1}})
				if err != nil || mbps < 1 || mbps > leastPlainBps {
					r.bad(speed, "PORT."+name+".speed", "is %s, want a speed in Mbps", speed)
					mbps = unknownBps / 1e6
				}
				p.bps = mbps * 1e6
			}
			p.down = strings.EqualFold(scalar(item.get("admin_status")), "down")
			v.ports[name] = p
			if alias := scalar(item.get("alias")); alias != "" {
				v.alias[alias] = name
			}
		}
	}
	lengths := t.get("CABLE_LENGTH")
	if lengths == nil || !r.object(lengths, "CABLE_LENGTH") {
		return
	}
	for i, profile := range lengths.keys {
		for k, name := range lengths.items[i].keys {
			p, known := v.ports[name]
			length := lengths.items[i].items[k]
			delay, err := lengthDelay(length.text, "")
			if err != nil {
				r.bad(length, "CABLE_LENGTH."+profile+"."+name, "%v", err)
				continue
			}
			if known && delay > 0 { // 0m stands for a port without a cable
				p.delayNS = delay
				v.ports[name] = p
			}
		}
	}
}

// readNeighbors reads DEVICE_NEIGHBOR, whose keys are local ports ({name, port}) or neighbours
// ({local_port, port}).
func (v *sonicSwitch) readNeighbors(r *treeReader, t *tree) {
	if t == nil || !r.object(t, "DEVICE_NEIGHBOR") {
		return
	}
	for i, key := range t.keys {
		item := t.items[i]
		n := sonicNeighbor{local: key, device: scalar(item.get("name")), port: scalar(item.get("port")),
			at: place{file: r.file, line: item.line}}
		if local := scalar(item.get("local_port")); local != "" {
			n.local = local
			if n.device == "" {
				n.device = key
			}
		}
		if n.device = strings.TrimSpace(n.device); n.device == "" {
			r.bad(item, "DEVICE_NEIGHBOR."+key, "has neither name nor local_port")
			continue
		}
		v.neighbors = append(v.neighbors, n)
	}
}

// readKinds reads the roles that a switch states of its neighbours.
func (r *sonicReader) readKinds(reader *treeReader, t *tree) {
	if t == nil || !reader.object(t, "DEVICE_NEIGHBOR_METADATA") {
		return
	}
	for i, name := range t.keys {
		if kind := sonicKind(t.items[i].get("type")); kind != "" {
			at := place{file: reader.file, line: t.items[i].line}
			r.kinds = append(r.kinds, device{name: name, kind: kind, at: at})
		}
	}
}

// combine makes sightings of the neighbours of all files. A neighbour may name the far port by its
// alias; where the far switch has a file, the alias is replaced by the port's name, so that the two
// ends match. A switch with a file is never a host, whatever its number of cables.
func (r *sonicReader) combine(o *Options) {
	s := sightings{reports: func(device string) bool { return r.switches[device] != nil }}
	neighbor := map[string]bool{}
	for _, v := range r.order {
		kind := v.kind
		if kind == "" || kind == KindHost {
			kind = KindSwitch
		}
		s.devices = append(s.devices, device{name: v.name, kind: kind, at: v.at})
		for _, n := range v.neighbors {
			neighbor[n.device] = true
			port, known := v.ports[n.local]
			if name, isAlias := v.alias[n.local]; !known && isAlias {
				n.local, port, known = name, v.ports[name], true
			}
			if !known {
				port.delayNS = -1
			}
			if far := r.switches[n.device]; far != nil {
				if _, has := far.ports[n.port]; !has && far.alias[n.port] != "" {
					n.port = far.alias[n.port]
				}
			}
			s.list = append(s.list, sighting{a: end{v.name, n.local}, b: end{n.device, n.port}, bps: port.bps,
				delayNS: port.delayNS, down: port.down, at: n.at})
		}
	}
	kinds := map[string]string{}
	for _, k := range r.kinds {
		switch first := kinds[k.name]; {
		case r.switches[k.name] != nil || !neighbor[k.name]: // its own file says, or it has no cable
		case first == "":
			kinds[k.name] = k.kind
			s.devices = append(s.devices, k)
		case first != k.kind && !r.repair(o, FaultContradictory):
			r.fault(k.at, FaultContradictory, "%s is a %s here and a %s in another file", k.name, k.kind, first)
		}
	}
	r.note("switches: %s with a configuration", count(len(r.order), "switch"))
	s.assemble(r.draft, o)
}
