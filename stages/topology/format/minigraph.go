package format

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"

	"parsimon/stages/topology"
)

// A minigraphLink is an element DeviceLinkBase of a minigraph.
type minigraphLink struct {
	Type        string `xml:"type,attr"`
	ElementType string // the same; either may be missing
	StartDevice string
	StartPort   string
	EndDevice   string
	EndPort     string
	Bandwidth   string // Mbps
}

// A minigraphDevice is an element Device below Devices.
type minigraphDevice struct {
	Type     string `xml:"type,attr"`
	Hostname string
}

// A minigraphPort is an element EthernetInterface below DeviceInfos.
type minigraphPort struct {
	InterfaceName string
	Speed         string // Mbps
}

// A minigraphReader collects the contents of minigraphs, each of which describes one switch.
type minigraphReader struct {
	*draft
	listings
	file  string
	own   string            // the switch that the file is about
	speed map[string]string // of its ports, in Mbps
	first map[string]string // by switch: its file
	kind  map[string]device
}

// readMinigraph reads minigraph.xml files of SONiC: the links of PngDec, in Mbps, and the types of Devices.
// The speed of a link that has none is that of its port in DeviceInfos.
func readMinigraph(d *draft) {
	r := &minigraphReader{draft: d, first: map[string]string{}, kind: map[string]device{}}
	for _, file := range d.files {
		r.read(file)
	}
	r.reports = func(device string) bool { return r.first[device] != "" }
	cabled := map[string]bool{}
	for _, v := range r.all {
		for _, name := range []string{v.a.device, v.b.device} {
			k, is := r.kind[name]
			if is && !cabled[name] {
				r.devices = append(r.devices, k)
			}
			cabled[name] = true
		}
	}
	d.assemble(&r.listings)
}

// read reads one file. The name of its switch is at the end of the file, and the speeds of ports follow the
// links.
func (r *minigraphReader) read(file string) {
	r.file = file
	r.own = ""
	r.speed = map[string]string{}
	x := xml.NewDecoder(bytes.NewReader(r.content(file)))
	var path []string
	from := len(r.all)
	for {
		token, err := x.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		line, _ := x.InputPos()
		if err != nil {
			r.syntax(file, line, "is not XML: %v", err)
			return
		}
		switch t := token.(type) {
		case xml.StartElement:
			read, err := r.element(x, t, path, line)
			if err != nil {
				r.syntax(file, line, "%s: %v", t.Name.Local, err)
				return
			}
			if !read {
				path = append(path, t.Name.Local)
			}
		case xml.EndElement:
			path = path[:len(path)-1]
		}
	}
	if r.own == "" {
		r.syntax(file, 0, "has no Hostname: a minigraph names the switch that it is about")
		return
	}
	first := r.first[r.own]
	if first != "" {
		r.syntax(file, 0, "is about %s, as is %s", r.own, first)
		return
	}
	r.first[r.own] = file
	for i := from; i < len(r.all); i++ {
		r.finish(&r.all[i])
	}
}

// element reads the elements that matter. If read is false, the caller reads the children of the element
// next.
func (r *minigraphReader) element(
	x *xml.Decoder,
	t xml.StartElement,
	path []string,
	line int,
) (read bool, err error) {
	at := place{file: r.file, line: line}
	parent := ""
	if len(path) > 0 {
		parent = path[len(path)-1]
	}
	switch {
	case t.Name.Local == "DeviceLinkBase":
		var link minigraphLink
		err = x.DecodeElement(&link, &t)
		r.link(link, at)
	case t.Name.Local == "Device" && parent == "Devices":
		var v minigraphDevice
		err = x.DecodeElement(&v, &t)
		name := strings.TrimSpace(v.Hostname)
		kind := sonicKind(v.Type)
		if kind != "" && r.kind[name].name == "" {
			r.kind[name] = device{name: name, kind: kind, stated: kind != topology.KindSwitch, at: at}
		}
	case t.Name.Local == "EthernetInterface":
		var p minigraphPort
		err = x.DecodeElement(&p, &t)
		r.speed[strings.TrimSpace(p.InterfaceName)] = p.Speed
	case t.Name.Local == "Hostname" && len(path) == 1:
		err = x.DecodeElement(&r.own, &t)
		r.own = strings.TrimSpace(r.own)
	default:
		return false, nil
	}
	return true, err
}

// link adds a link between interfaces. Other types of links are management, console and logical links.
func (r *minigraphReader) link(link minigraphLink, at place) {
	kind := cmp.Or(link.Type, link.ElementType)
	if kind != "DeviceInterfaceLink" && kind != "UnderlayInterfaceLink" {
		r.count(1, "link", "left out: %s of type "+kind)
		return
	}
	v := listing{
		at:      at,
		delayNS: -1,
		a:       end{strings.TrimSpace(link.StartDevice), strings.TrimSpace(link.StartPort)},
		b:       end{strings.TrimSpace(link.EndDevice), strings.TrimSpace(link.EndPort)},
	}
	if v.a.device == "" || v.b.device == "" {
		r.fault(at, topology.FaultFormat, "the link needs StartDevice and EndDevice")
		return
	}
	v.bps = r.mbps(link.Bandwidth, at)
	r.all = append(r.all, v)
}

// mbps parses a speed in Mbps. It returns 0 if there is none.
func (r *minigraphReader) mbps(text string, at place) int64 {
	text = strings.TrimSpace(text)
	if text == "" || text == "0" {
		return 0
	}
	bps, err := topology.ParseSpeed(text + "M")
	if err != nil {
		r.fault(at, topology.FaultFormat, "the speed %v", err)
		return unknownBps
	}
	return bps
}

// finish reverses a link if necessary, so that it begins at the switch of its file, and sets the speed of its
// port.
func (r *minigraphReader) finish(v *listing) {
	if v.a.device != r.own && v.b.device == r.own {
		v.a, v.b = v.b, v.a
	}
	if v.bps == 0 && v.a.device == r.own {
		v.bps = r.mbps(r.speed[v.a.port], v.at)
	}
}

// minigraphFiles returns the minigraphs in a directory, each of one switch.
func minigraphFiles(dir string) ([]string, error) {
	files, err := glob(dir, "*.xml", "*/*minigraph*.xml")
	return slices.DeleteFunc(files, func(file string) bool {
		s := &source{}
		return formatOf(s.head(file)) != "minigraph"
	}), err
}
