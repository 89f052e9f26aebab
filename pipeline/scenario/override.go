package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"parsimon/schema/names"
	"parsimon/schema/tree"
	"parsimon/simkernel"
)

// A Setting gives a key of a scenario file another value.
type Setting struct {
	Key   string // as in the file: workload.max_load, workload.services[0].sigma
	Value string // as in the file
}

// String is KEY=VALUE.
func (s Setting) String() string { return s.Key + "=" + s.Value }

// FullKey is the key as it is in a file, also where Key is a short name of it.
func (s Setting) FullKey() string {
	if long, ok := aliases[s.Key]; ok {
		return long
	}
	return s.Key
}

// aliases are short names of keys.
var aliases = map[string]string{"load.max": "workload.max_load", "window": "transport.window",
	"mtu": "transport.payload"}

// exclusive lists the keys of a mapping of which a file has one: setting one removes the others.
var exclusive = [][]string{
	{"topology.name", "topology.file", "topology.clos", "topology.fabric", "topology.graph"},
	{"topology.clos.oversubscription", "topology.clos.spines_per_plane"},
	{"workload.duration", "workload.flows_count"},
}

// LoadWith reads a scenario file or a shipped scenario, as Load does, with some keys changed. A transport of another
// kind has its default constants and the file's window, unless settings before or after it change them. Errors name the
// setting.
func LoadWith(path string, settings []Setting) (*Scenario, error) {
	top, dir, err := open(path)
	if err != nil {
		return nil, err
	}
	sc, err := read(top, dir)
	if err != nil || len(settings) == 0 {
		return sc, err
	}
	text := strings.Join(names.Of(settings, Setting.String), ", ")
	for _, kinds := range []bool{true, false} { // a new kind of transport resets the constants
		for _, s := range settings {
			if (s.Key == kindKey) != kinds {
				continue
			}
			if err := apply(top.Value, s); err != nil {
				return nil, fmt.Errorf("%s: --set %s: %w", path, s, err)
			}
		}
	}
	sc, err = read(top, dir)
	var field *tree.FieldError
	if errors.As(err, &field) {
		return nil, fmt.Errorf("%s with %s: %s: %w", path, text, field.Key, field.Err)
	}
	if err == nil {
		sc.Name += ", " + text
	}
	return sc, err
}

const kindKey = "transport.kind"

func apply(top *tree.Value, s Setting) error {
	key := s.FullKey()
	transport := top.Get("transport")
	if key == kindKey && cmp.Or(transport.Get("kind").Scalar(), simkernel.DefaultParams().Transport.String()) != s.Value {
		kept := &tree.Value{Kind: tree.Object}
		if window := transport.Get("window"); window != nil {
			kept.Keys, kept.Items = []string{"window"}, []*tree.Value{window}
		}
		if err := set(top, []string{"transport"}, kept); err != nil {
			return err
		}
	}
	for _, group := range exclusive {
		for _, other := range group {
			if other != key && slices.Contains(group, key) {
				remove(top, strings.Split(other, "."))
			}
		}
	}
	f, err := tree.YAML("value", []byte(s.Value))
	if err != nil {
		return fmt.Errorf("is no YAML value: %w", err)
	}
	return set(top, strings.Split(key, "."), f.Value)
}

// set gives the key below an object a value. Objects on the way are made where they are missing; elements of lists
// must be there: NAME[I], or NAME.ELEMENT where elements have names.
func set(m *tree.Value, path []string, v *tree.Value) error {
	name, at, err := element(path[0])
	if err != nil {
		return err
	}
	i := slices.Index(m.Keys, name)
	if i < 0 {
		if at >= 0 {
			return fmt.Errorf("the file has no %s (an element that has a name is %s.NAME)", name, name)
		}
		i = len(m.Keys)
		m.Keys, m.Items = append(m.Keys, name), append(m.Items, &tree.Value{Kind: tree.Object})
	}
	place := &m.Items[i]
	if at >= 0 {
		if at >= len((*place).Items) || (*place).Kind != tree.List {
			return fmt.Errorf("the file has no %s", path[0])
		}
		place = &(*place).Items[at]
	}
	if len(path) == 1 {
		*place = v
		return nil
	}
	if (*place).Kind == tree.List && len(path) > 2 {
		named := func(item *tree.Value) bool { return item.Get("name").Scalar() == path[1] }
		if at = slices.IndexFunc((*place).Items, named); at < 0 {
			return fmt.Errorf("%s has none of the name %s", path[0], path[1])
		}
		place, path = &(*place).Items[at], path[1:]
	}
	if (*place).Kind != tree.Object {
		return fmt.Errorf("%s has no keys", path[0])
	}
	return set(*place, path[1:], v)
}

// element reads NAME or NAME[I]; at is -1 for the former.
func element(text string) (name string, at int, err error) {
	name, rest, ok := strings.Cut(text, "[")
	if !ok {
		return text, -1, nil
	}
	digits, closed := strings.CutSuffix(rest, "]")
	at, err = strconv.Atoi(digits)
	if err != nil || !closed || at < 0 || name == "" {
		return "", 0, fmt.Errorf("%q: want KEY or KEY[I]", text)
	}
	return name, at, nil
}

func remove(m *tree.Value, path []string) {
	i := slices.Index(m.Keys, path[0])
	switch {
	case i < 0:
	case len(path) > 1:
		remove(m.Items[i], path[1:])
	default:
		m.Keys, m.Items = slices.Delete(m.Keys, i, i+1), slices.Delete(m.Items, i, i+1)
	}
}
