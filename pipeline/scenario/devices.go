package scenario

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"parsimon/schema/tree"
	"parsimon/schema/units"
	"parsimon/simkernel"
	"parsimon/simkernel/network"
	"parsimon/stages/step"
	"parsimon/stages/topology"
	"parsimon/stages/topology/format"
)

// Switches are the settings of a scenario's switches: key switches of its file. The zero value has unlimited
// buffers.
type Switches struct {
	network.BufferParams
	OfTopology bool // size and alpha are what the configurations of the switches state
}

// ofTopology, as the size of a buffer or as classes, means the settings in the configurations of the
// switches.
const ofTopology = "topology"

// parseBuffer parses the size of a buffer: "400KB", or "topology", which does not change the size.
func (w *Switches) parseBuffer(text string) (int64, error) {
	w.OfTopology = text == ofTopology
	if w.OfTopology {
		return w.SwitchBytes, nil
	}
	bytes, err := units.Parse(text, units.Bytes)
	if err != nil || bytes < 1 {
		err = fmt.Errorf("is %q, want a size such as 12MB, or topology", text)
	}
	return bytes, err
}

// readPFC reads whether switches pause links.
func readPFC(to *bool) func(tree.Field) error {
	return func(f tree.Field) error {
		if tree.ReadBool(to)(f) != nil {
			return f.Fail(errors.New("want true or false, for all switches; of some traffic only: key pfc of " +
				"switches.classes"))
		}
		return nil
	}
}

// readSwitches reads key switches. If no threshold is stated, it depends on PFC.
func (r *scenarioReader) readSwitches(f tree.Field) error {
	w := &r.switches
	unstated := Switches{BufferParams: network.BufferParams{PFC: w.PFC}}
	unstated.SetDefaults()
	if unstated.Alpha == w.Alpha && !r.alphaStated {
		w.Alpha = 0
	}
	err := f.Object(tree.Keys{
		"buffer":             tree.ReadParsed(&w.SwitchBytes, w.parseBuffer),
		"alpha":              readAlpha(&w.Alpha),
		"reserved":           tree.ReadQuantity(&w.ReservedBytes, units.Bytes, 1, 1<<40),
		"pfc":                readPFC(&w.PFC),
		"xoff":               tree.ReadQuantity(&w.XOFFBytes, units.Bytes, 1, 1<<40),
		"headroom":           tree.ReadQuantity(&w.HeadroomBytes, units.Bytes, 1, 1<<40),
		"selective_recovery": tree.ReadBool(&w.Selective),
		"retransmit_timeout": tree.ReadQuantity(&w.RetransmitNS, units.Duration, 1000, 1e12),
		"watchdog":           tree.ReadQuantity(&w.WatchdogNS, units.Duration, 1, 1e12),
		"restore":            tree.ReadQuantity(&w.RestoreNS, units.Duration, 1, 1e12),
		"classes":            r.readClasses,
	})
	r.alphaStated = r.alphaStated || slices.Contains(f.Value.Keys, "alpha")
	if err == nil && (*w != Switches{} || r.classes == nil && !r.ofSwitches) {
		w.SetDefaults()
		if w.SwitchBytes == 0 && !w.OfTopology {
			err = f.Failf("has no buffer: key buffer, or --switch-buffer")
		}
	}
	var field *tree.FieldError
	if errors.As(err, &field) {
		field.Err = Refusal{field.Err}
	}
	return err
}

// readClasses reads the traffic classes, "topology", or an object with changes by name of the class.
func (r *scenarioReader) readClasses(f tree.Field) error {
	had := slices.Clone(r.classes)
	if len(had) == 0 && f.Value.Kind == tree.Object {
		return f.Failf("there are no classes to change: want a list of them, or topology")
	}
	r.classes = nil
	r.ofSwitches = f.Value.Scalar() == ofTopology
	if r.ofSwitches {
		return nil
	}
	read := func(item tree.Field, c step.TrafficClass) error {
		pfc := !c.Lossy
		err := item.Object(tree.Keys{
			"name":     tree.ReadText(&c.Name),
			"queue":    tree.ReadInt(&c.Queue, 0, network.MaxClasses-1),
			"services": tree.ReadList(&c.Services, tree.Verbatim),
			"vnets":    tree.ReadList(&c.VNets, tree.Verbatim),
			"dscp":     tree.ReadList(&c.DSCP, parseDSCP),
			"weight": func(f tree.Field) error {
				c.Weight = 0
				if f.Value.Scalar() == "strict" { // as if it were not stated
					return nil
				}
				return tree.ReadInt(&c.Weight, 1, network.MaxWeight)(f)
			},
			"mark_per_gbps":     tree.ReadQuantity(&c.MarkPerGbps, units.Bytes, 1, 1<<30),
			"max_mark_per_gbps": tree.ReadQuantity(&c.MaxMarkPerGbps, units.Bytes, 1, 1<<30),
			"alpha":             readAlpha(&c.Alpha),
			"pfc":               tree.ReadBool(&pfc),
		})
		c.Lossy = !pfc
		r.classes = append(r.classes, c)
		return err
	}
	err := error(nil)
	if len(had) > 0 && f.Value.Kind == tree.Object {
		keys := tree.Keys{}
		for _, c := range had {
			if f.Value.Get(c.Name) == nil {
				r.classes = append(r.classes, c)
			}
			keys[strings.ToLower(c.Name)] = func(item tree.Field) error { return read(item, c) }
		}
		err = f.Object(keys)
	} else {
		err = f.Each(func(item tree.Field) error {
			return cmp.Or(read(item, step.TrafficClass{}), item.Need("name", "queue"))
		})
	}
	if err == nil {
		r.classes, err = step.SettleClasses(r.classes)
	}
	return f.Fail(err)
}

// parseDSCP parses a DSCP (RFC 2474).
func parseDSCP(text string) (int16, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n > 63 {
		return 0, fmt.Errorf("is %s, must be 0 to 63", text)
	}
	return int16(n), nil
}

// Classes are the queues of the ports. With nil, each port has one queue.
func (s *Scenario) Classes() ([]step.TrafficClass, error) {
	classes := slices.Clone(s.classes)
	if s.ofSwitches {
		classes = slices.Clone(s.switchClasses)
		if classes == nil {
			return nil, Refusal{errors.New("switches.classes is topology, which has no SONiC configurations with a " +
				"DSCP_TO_TC_MAP of ports")}
		}
	}
	for _, c := range classes {
		for _, service := range c.Services {
			isJob := slices.ContainsFunc(s.workload.jobs, func(j jobSpec) bool { return j.Name == service })
			if !s.traced() && s.service(service) == nil && !isJob {
				return nil, Refusal{fmt.Errorf("switches.classes: class %s has service %q, and the workload has none of "+
					"that name", c.Name, service)}
			}
		}
		for _, vnet := range c.VNets {
			if !s.traced() && !slices.ContainsFunc(s.workload.services,
				func(o serviceSpec) bool { return o.VNet == vnet }) {
				return nil, Refusal{fmt.Errorf("switches.classes: class %s has vnet %q, which no service has", c.Name,
					vnet)}
			}
		}
	}
	return classes, nil
}

func readAlpha(to *float64) func(tree.Field) error {
	return tree.ReadFloat(to, "1/1024 to 1024", func(x float64) bool {
		return x >= 1.0/1024 &&
			x <= 1024
	})
}

// A Refusal is the error for settings that exclude each other or cannot be simulated. It is a mistake of the
// user.
type Refusal struct{ Err error }

func (e Refusal) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e Refusal) Unwrap() error { return e.Err }

// SetDefaults sets the threshold if none is stated.
func (w *Switches) SetDefaults() {
	if w.Alpha == 0 {
		w.Alpha = network.DefaultAlpha
		if w.PFC {
			w.Alpha = network.DefaultPFCAlpha
		}
	}
	if w.WatchdogNS > 0 && w.RestoreNS == 0 {
		w.RestoreNS = network.DefaultWatchdogNS
	}
}

// Buffers returns the packet buffers of the switches. The zero value is unlimited. The network must have been
// built.
func (s *Scenario) Buffers() (network.BufferParams, error) {
	b := s.switches.BufferParams
	stated := s.switchBuffer
	if s.switches.OfTopology {
		if stated == nil {
			return b, Refusal{errors.New("switches.buffer is topology, which has no SONiC configurations with a " +
				"BUFFER_POOL that has a size")}
		}
		b.SwitchBytes = stated.SwitchBytes
		if b.PFC {
			stated = &s.switchPFC
		}
		if !s.alphaStated {
			b.Alpha = cmp.Or(stated.Alpha, b.Alpha)
		}
		b.XOFFBytes = cmp.Or(b.XOFFBytes, stated.XOFFBytes)
		b.HeadroomBytes = cmp.Or(b.HeadroomBytes, stated.HeadroomBytes)
		b.ReservedBytes = cmp.Or(b.ReservedBytes, stated.ReservedBytes)
	}
	if b.IsZero() {
		return b, nil
	}
	if s.params.Transport.Traits().AckClocked && (b.RetransmitNS > 0 || b.Selective) {
		return b, Refusal{fmt.Errorf("switches.retransmit_timeout and switches.selective_recovery are of "+
			"transports "+
			"with a rate: %v recovers by SACK, and its least timeout is transport.min_timeout", s.params.Transport)}
	}
	if err := b.Validate(&s.params); err != nil {
		return b, Refusal{fmt.Errorf("switches.%w", err)}
	}
	return b, nil
}

func (s *Scenario) settingsNotef(format string, args ...any) {
	s.switchNotes = append(s.switchNotes, "switch settings: "+fmt.Sprintf(format, args...))
}

// takeMarking sets the marking thresholds, unless the scenario file states them. Switches state them in
// bytes, and the model in bytes per Gbps.
func (s *Scenario) takeMarking(l *format.Loaded) {
	type thresholds struct{ min, max, percent int64 }
	var all []thresholds
	for _, of := range l.Settings {
		for _, k := range of.Taken {
			least := k.Object["green_min_threshold"]
			most := k.Object["green_max_threshold"]
			if k.Name == "marking" && k.Value != "ecn_none" && least > 0 {
				all = append(all, thresholds{least, max(least, most), k.Object["green_drop_probability"]})
			}
		}
	}
	if len(all) == 0 {
		return
	}
	if s.params.StatedMarks {
		s.settingsNotef("the scenario file states marking thresholds: WRED_PROFILE is not used")
		return
	}
	t, rest := mostCommon(all)
	gbps, perGbps := marksOf(l)
	from := fmt.Sprintf("%s = %d bytes at %g Gbps, the speed of most switch ports%s",
		origin(l, "marking_min", t.min), t.min, gbps, rest)
	transport := s.params.Transport
	switch {
	case transport.Traits().RandomMarks:
		c := &s.params.DCQCN
		c.MinMarkPerGbps = perGbps(t.min)
		c.MaxMarkPerGbps = perGbps(t.max)
		if t.percent > 0 {
			c.MaxMarking = float64(t.percent) / 100
		}
		s.settingsNotef("min_mark_per_gbps is %d, max_mark_per_gbps %d bytes (green_max_threshold = %d bytes), "+
			"max_marking %g%%: %s", c.MinMarkPerGbps, c.MaxMarkPerGbps, t.max, 100*c.MaxMarking, from)
	case s.setsMarkThreshold():
		s.params.MarkBytesPerGbps = perGbps(t.min)
		s.settingsNotef("mark_per_gbps is %d bytes: %s", s.params.MarkBytesPerGbps, from)
		if t.max > t.min {
			s.settingsNotef("%s marks at one threshold: green_max_threshold = %d bytes and green_drop_probability "+
				"are not used", transport, t.max)
		}
	case transport.Marks():
		s.settingsNotef("the marking threshold of %s cannot be set: WRED_PROFILE is not used", transport)
	default:
		s.settingsNotef("switches do not mark for %s: WRED_PROFILE is not used", transport)
	}
}

// setsMarkThreshold reports whether Params.MarkBytesPerGbps is a constant of the transport.
func (s *Scenario) setsMarkThreshold() bool {
	return slices.ContainsFunc(s.params.Keys(), func(k simkernel.Key) bool {
		return k.Int == &s.params.MarkBytesPerGbps
	})
}

// takeBuffer sets the packet memory of the switches: the size of the largest pool, and the dynamic threshold
// of most of its profiles.
func (s *Scenario) takeBuffer(l *format.Loaded) {
	var sizes, thresholds, reserves []int64
	for _, of := range l.Settings {
		var largest format.TakenSetting
		for _, k := range of.Taken {
			if k.Name == "pool_size" && k.Number > largest.Number {
				largest = k
			}
		}
		if largest.Number == 0 {
			continue
		}
		sizes = append(sizes, largest.Number)
		for _, k := range of.Taken {
			if k.Name != "pool" || largest.Key != "BUFFER_POOL|"+k.Value+"|size" {
				continue
			}
			if th, has := k.Object["dynamic_th"]; has {
				thresholds = append(thresholds, th)
			}
			if own, has := k.Object["size"]; has {
				reserves = append(reserves, own)
			}
		}
	}
	if len(sizes) == 0 {
		return
	}
	bytes, rest := mostCommon(sizes)
	s.switchBuffer = &network.BufferParams{SwitchBytes: bytes, Alpha: network.DefaultAlpha}
	alpha := fmt.Sprintf("alpha %g, the default", s.switchBuffer.Alpha)
	if len(thresholds) > 0 {
		th, rest := mostCommon(thresholds)
		s.switchBuffer.Alpha = math.Exp2(float64(th))
		alpha = fmt.Sprintf("alpha %g from %s = %d%s", s.switchBuffer.Alpha, origin(l, "dynamic_threshold", th), th,
			rest)
	}
	s.switchBuffer.ReservedBytes, _ = mostCommon(reserves)
	s.settingsNotef("--switch-buffer topology simulates buffers of %d bytes (%s%s), %d reserved for each "+
		"queue, %s", bytes,
		origin(l, "pool_size", bytes), rest, s.switchBuffer.ReservedBytes, alpha)
	s.takePFC(l)
}

// takePFC sets the headroom (xoff) of the BUFFER_PROFILE that most switches have for lossless priority
// groups. If the name of the profile has a speed, as in pg_lossless_40000_5m_profile (40,000 Mbps), the
// headroom is that of ports with this speed.
func (s *Scenario) takePFC(l *format.Loaded) {
	var profiles []network.BufferParams
	slowest, _ := l.Network.HostBps()
	for _, of := range l.Settings {
		for _, k := range of.Taken {
			if k.Name != "xoff" || k.Number < 1 || !strings.HasPrefix(k.Key, "BUFFER_PROFILE|") {
				continue
			}
			mbps := float64(slowest) / 1e6
			_, _ = fmt.Sscanf(k.Key, "BUFFER_PROFILE|pg_lossless_%f", &mbps)
			p := network.BufferParams{HeadroomBytes: int64(float64(k.Number) * float64(slowest) / 1e6 / max(1, mbps)),
				ReservedBytes: k.Object["size"], XOFFBytes: k.Object["static_th"]}
			if th, has := k.Object["dynamic_th"]; has {
				p.Alpha = math.Exp2(float64(th))
			}
			profiles = append(profiles, p)
		}
	}
	p, rest := mostCommon(profiles)
	if len(profiles) > 0 {
		s.switchPFC = p
		s.settingsNotef("with --pfc a link has %d bytes reserved, %d of headroom as fast as hosts' (xoff), and "+
			"alpha %g or a threshold of %d%s", p.ReservedBytes, p.HeadroomBytes, p.Alpha, p.XOFFBytes, rest)
	}
}

// marksOf returns the speed of most ports, and a function that converts marking thresholds there to bytes per
// Gbps.
func marksOf(l *format.Loaded) (gbps float64, perGbps func(bytes int64) int64) {
	gbps = float64(portSpeed(l.Network)) / 1e9
	return gbps, func(bytes int64) int64 { return int64(math.Round(float64(bytes) / gbps)) }
}

// takeQueues sets the classes of the switches: the queues that most of their ports have. If the transport
// uses marks and the scenario file does not state thresholds, it also sets those of the queues' WRED_PROFILE.
// A queue without a profile does not mark.
func (s *Scenario) takeQueues(l *format.Loaded) {
	var ports []format.PortQueues
	for _, of := range l.Settings {
		ports = append(ports, of.Queues...)
	}
	if len(ports) == 0 {
		return
	}
	_, perGbps := marksOf(l)
	unmarked, _ := s.params.MarkBytes(1e9, 1)
	queues, rest := mostCommon(ports)
	var listed []string
	s.switchClasses = nil
	for i, q := range queues {
		if q.DSCPs == 0 && i > 0 {
			continue
		}
		c := step.TrafficClass{Name: fmt.Sprintf("queue%d", i), Queue: i}
		c.Weight = q.Weight
		c.Lossy = !q.PFC
		for d := range int16(64) {
			if q.DSCPs>>d&1 != 0 {
				c.DSCP = append(c.DSCP, d)
			}
		}
		if unmarked != simkernel.Unreachable && !s.params.StatedMarks {
			c.MarkPerGbps = max(1, perGbps(q.MarkMin))
			if q.MarkMin == 0 {
				c.MarkPerGbps = network.MaxMarkPerGbps
			} else if s.params.Transport.Traits().RandomMarks {
				c.MaxMarkPerGbps = max(c.MarkPerGbps, perGbps(q.MarkMax))
			}
		}
		s.switchClasses = append(s.switchClasses, c)
		listed = append(listed, fmt.Sprintf("%d (%d DSCPs, weight %d, marks from %d bytes, PFC %v)", i, len(c.DSCP),
			q.Weight, q.MarkMin, q.PFC))
	}
	s.settingsNotef("switches.classes: topology, --switch-classes simulate the queues (weight 0: strict; 0 "+
		"bytes: no marks) of most of %d ports: %s%s", len(ports), strings.Join(listed, ", "), rest)
}

// origin returns the first source of a value.
func origin(l *format.Loaded, name string, value int64) string {
	for _, of := range l.Settings {
		for _, k := range of.Taken {
			if k.Name == name && k.Value == fmt.Sprint(value) {
				return fmt.Sprintf("%s of %s, line %d", k.Key, k.File, k.Line)
			}
		}
	}
	return strings.ReplaceAll(name, "_", " ")
}

// mostCommon returns the most frequent value, or the first of several, and a text with the number of the
// others.
func mostCommon[T comparable](values []T) (best T, rest string) {
	count := map[T]int{}
	for _, v := range values {
		count[v]++
	}
	n := 0
	for _, v := range values {
		if count[v] > n {
			best = v
			n = count[v]
		}
	}
	if n < len(values) {
		rest = fmt.Sprintf("; %d of %d have others, which are not used", len(values)-n, len(values))
	}
	return best, rest
}

// portSpeed returns the bandwidth that most ports of switches have, or the lowest of several.
func portSpeed(n *topology.Network) int64 {
	var speeds []int64
	for i := range n.Links {
		if !n.FromHost(n.Links[i].ID) {
			speeds = append(speeds, n.Links[i].BandwidthBps)
		}
	}
	slices.SortFunc(speeds, cmp.Compare[int64])
	best, _ := mostCommon(speeds)
	return best
}

// Params returns the transport and its constants.
func (s *Scenario) Params() simkernel.Params {
	p := s.params
	if p.Transport.Traits().RandomMarks {
		p.Seed = s.Seed
	}
	return p
}

func parseWindow(text string) (int64, error) {
	if text == "auto" {
		return simkernel.AutoWindow, nil
	}
	bytes, err := units.Parse(text, units.Bytes)
	if err == nil && (bytes < 1 || bytes > simkernel.MaxWindowBytes) {
		err = fmt.Errorf("is %s, must be auto or 1 to %d bytes", text, int64(simkernel.MaxWindowBytes))
	}
	return bytes, err
}

// readWindow reads key window: a value for all paths, or one for each class of paths
// (simkernel.WANRoundTripNS). A class that is not named has auto.
func (r *scenarioReader) readWindow(f tree.Field) error {
	p := &r.params
	p.SetWindow(simkernel.AutoWindow)
	if f.Is(tree.Object) {
		return f.Object(tree.Keys{
			"lan": tree.ReadParsed(&p.WindowBytes, parseWindow),
			"wan": tree.ReadParsed(&p.WANWindowBytes, parseWindow),
		})
	}
	err := tree.ReadParsed(&p.WindowBytes, parseWindow)(f)
	p.WANWindowBytes = p.WindowBytes
	return err
}

// markKeys are the keys of marking thresholds. If a file has one of them, its value also applies to long
// links.
var markKeys = []string{"mark_per_gbps", "min_mark_per_gbps", "max_mark_per_gbps"}

// paramsOf returns the default constants of a transport in a scenario, where windows are fitted to paths.
func paramsOf(t simkernel.Transport) simkernel.Params {
	p := simkernel.ParamsOf(t)
	p.SetWindow(simkernel.AutoWindow)
	return p
}

// readTransport reads the kind first, because it decides which other keys exist.
func (r *scenarioReader) readTransport(f tree.Field) error {
	kind := f.Of("kind")
	if kind.Value != nil {
		name, err := kind.Scalar()
		if err != nil {
			return err
		}
		t, err := simkernel.ParseTransport(name)
		if err != nil {
			return kind.Fail(err)
		}
		if t != r.params.Transport { // the window stays if Set changes the transport
			p := paramsOf(t)
			p.WindowBytes = r.params.WindowBytes
			p.WANWindowBytes = r.params.WANWindowBytes
			r.params = p
		}
	}
	keys := tree.Keys{"kind": func(tree.Field) error { return nil }, "window": r.readWindow}
	for _, k := range r.params.Keys() {
		keys[k.Name] = readKey(k)
	}
	for _, name := range markKeys {
		if f.Of(name).Value != nil {
			r.params.StatedMarks = true
		}
	}
	if err := f.Object(keys); err != nil {
		return err
	}
	if r.params.Transport.Traits().AckClocked { // its own is receive_window
		r.params.SetWindow(simkernel.AutoWindow)
	}
	err := r.params.Validate()
	for _, w := range []int64{r.params.WindowBytes, r.params.WANWindowBytes} {
		packet := r.params.PayloadBytes + r.params.HeaderBytes
		if err == nil && w != simkernel.AutoWindow && w < packet {
			err = fmt.Errorf("window is %d bytes, must hold a packet of %d", w, packet)
		}
	}
	return f.Fail(err)
}

// readKey reads a value of a key into the constant that it points to.
func readKey(k simkernel.Key) func(tree.Field) error {
	switch k.Unit {
	case simkernel.Bytes:
		return tree.ReadQuantity(k.Int, units.Bytes, int64(k.Min), int64(k.Max))
	case simkernel.Nanoseconds:
		return tree.ReadQuantity(k.Int, units.Duration, int64(k.Min), int64(k.Max))
	case simkernel.BitsPerSec:
		return func(f tree.Field) error {
			var bps int64
			err := tree.ReadBounded(&bps, topology.ParseSpeed, int64(k.Min), int64(k.Max), "bps")(f)
			*k.Float = float64(bps)
			return err
		}
	case simkernel.Count:
		return tree.ReadInt(k.Int, int64(k.Min), int64(k.Max))
	}
	if k.Unit == simkernel.Share {
		return tree.ReadShare(k.Float, fmt.Sprintf("%s, or up to %v%%", k.Range(), 100*k.Max), k.Contains)
	}
	return tree.ReadFloat(k.Float, k.Range(), k.Contains)
}

// A canonicalTransport is the canonical form of the transport. It has the constants that all transports share
// and those of DCTCP. The constants of another transport are below its name. Constants of other transports
// are omitted, so that scenarios keep their ids when transports are added.
type canonicalTransport simkernel.Params

// MarshalJSON writes the canonical form.
func (t canonicalTransport) MarshalJSON() ([]byte, error) {
	p := simkernel.Params(t)
	var wan *int64
	if p.WANWindowBytes != p.WindowBytes {
		wan = &p.WANWindowBytes
	}
	b, err := json.Marshal(struct {
		Kind                string  `json:"kind"`
		PayloadBytes        int64   `json:"payload_bytes"`
		HeaderBytes         int64   `json:"header_bytes"`
		AckBytes            int64   `json:"ack_bytes"`
		WindowBytes         int64   `json:"window_bytes"`
		Gain                float64 `json:"gain"`
		AdditiveIncreaseBps float64 `json:"additive_increase_bps"`
		MinRateBps          float64 `json:"min_rate_bps"`
		MarkBytesPerGbps    int64   `json:"mark_bytes_per_gbps"`
		// Keys that were added later are omitted if they have no effect, so that older scenarios keep their
		// ids.
		WANWindowBytes *int64 `json:"wan_window_bytes,omitempty"` // if it differs from the other
		StatedMarks    bool   `json:"stated_marks,omitempty"`     // if windows of long paths are fitted to them
	}{
		p.Transport.String(), p.PayloadBytes, p.HeaderBytes, p.AckBytes, p.WindowBytes, p.Gain,
		p.AdditiveIncreaseBps, p.MinRateBps, p.MarkBytesPerGbps,
		wan, p.StatedMarks && p.WANWindowBytes == simkernel.AutoWindow,
	})
	constants := p.Constants()
	if err != nil || constants == nil {
		return b, err
	}
	own, err := json.Marshal(constants)
	if err != nil {
		return nil, err
	}
	b = append(b[:len(b)-1], fmt.Sprintf(",%q:", p.Transport)...)
	return append(append(b, own...), '}'), nil
}
