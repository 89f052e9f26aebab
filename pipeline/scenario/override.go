package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"parsimon/datasets"
	"parsimon/simkernel"
	"parsimon/stages/topology"
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
var aliases = map[string]string{"load.max": "workload.max_load", "window": windowKey}

// exclusive lists the keys of a mapping of which a file has one: setting one removes the others.
var exclusive = [][]string{
	{"topology.name", "topology.file", "topology.clos", "topology.graph"},
	{"topology.clos.oversubscription", "topology.clos.spines_per_plane"},
	{"workload.duration", "workload.flows_count"},
}

// LoadWith reads a scenario file or a shipped scenario, as Load does, with some keys changed. A transport of another
// kind has its default constants and the file's window, unless settings before or after it change them. Errors name the
// setting.
func LoadWith(path string, settings []Setting) (*Scenario, error) {
	if len(settings) == 0 {
		return Load(path)
	}
	dir, data := "", []byte(nil)
	shipped, err := datasets.Read(datasets.Scenarios, path)
	if info, serr := os.Stat(path); serr == nil && !info.IsDir() {
		dir = filepath.Dir(path)
		data, err = topology.ReadFile(path)
	} else if err == nil {
		data = shipped
	}
	if err != nil {
		_, err := Load(path) // whose error lists what ships
		return nil, err
	}
	if _, err := parse(path, dir, data); err != nil {
		return nil, err
	}
	var top yaml.MapSlice
	if err := yaml.UnmarshalWithOptions(data, &top, yaml.UseOrderedMap()); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var said []string
	for _, s := range settings {
		said = append(said, s.String())
	}
	for _, s := range kindFirst(settings) {
		if err := apply(&top, s); err != nil {
			return nil, fmt.Errorf("%s: --set %s: %w", path, s, err)
		}
	}
	changed, err := yaml.Marshal(top)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	sc, err := parse(path, dir, changed)
	var field *FieldError
	if errors.As(err, &field) {
		return nil, fmt.Errorf("%s with %s: %s: %w", path, strings.Join(said, ", "), field.Key, field.Err)
	}
	if err == nil {
		sc.Name += ", " + strings.Join(said, ", ")
	}
	return sc, err
}

// kindKey is the key of the transport's kind, windowKey that of its window.
const (
	kindKey   = "transport.kind"
	windowKey = "transport.window"
)

// kindFirst returns settings with those of the transport's kind first, since a new kind resets the constants.
func kindFirst(settings []Setting) []Setting {
	sorted := slices.Clone(settings)
	slices.SortStableFunc(sorted, func(a, b Setting) int {
		switch {
		case a.Key == kindKey && b.Key != kindKey:
			return -1
		case a.Key != kindKey && b.Key == kindKey:
			return 1
		}
		return 0
	})
	return sorted
}

// apply changes one key.
func apply(top *yaml.MapSlice, s Setting) error {
	key := s.FullKey()
	if key == kindKey && fmt.Sprint(cmp.Or(value(*top, kindKey), any(simkernel.DefaultParams().Transport))) != s.Value {
		kept := yaml.MapSlice{}
		if window := value(*top, windowKey); window != nil {
			kept = append(kept, yaml.MapItem{Key: "window", Value: window})
		}
		if err := set(top, []string{"transport"}, kept); err != nil {
			return err
		}
	}
	for _, group := range exclusive {
		if !slices.Contains(group, key) {
			continue
		}
		for _, other := range group {
			if other != key {
				remove(top, strings.Split(other, "."))
			}
		}
	}
	var v any
	if err := yaml.UnmarshalWithOptions([]byte(s.Value), &v, yaml.UseOrderedMap()); err != nil {
		return fmt.Errorf("is no YAML value: %w", err)
	}
	return set(top, strings.Split(key, "."), v)
}

// value is the value of a key; nil if the file has none.
func value(top yaml.MapSlice, key string) any {
	var at any = top
	for _, name := range strings.Split(key, ".") {
		m, ok := at.(yaml.MapSlice)
		if !ok {
			return nil
		}
		i := index(m, name)
		if i < 0 {
			return nil
		}
		at = m[i].Value
	}
	return at
}

func index(m yaml.MapSlice, name string) int {
	return slices.IndexFunc(m, func(item yaml.MapItem) bool { return item.Key == name })
}

// set gives the key below a mapping a value. Mappings on the way are made where they are missing; elements of lists
// must be there.
func set(m *yaml.MapSlice, path []string, v any) error {
	name, at, err := element(path[0])
	if err != nil {
		return err
	}
	i := index(*m, name)
	if i < 0 {
		if at >= 0 {
			return fmt.Errorf("the file has no %s", name)
		}
		*m = append(*m, yaml.MapItem{Key: name, Value: yaml.MapSlice{}})
		i = len(*m) - 1
	}
	place := &(*m)[i].Value
	if at >= 0 {
		list, ok := (*place).([]any)
		if !ok || at >= len(list) {
			return fmt.Errorf("the file has no %s", path[0])
		}
		place = &list[at]
	}
	if len(path) == 1 {
		*place = v
		return nil
	}
	below, ok := (*place).(yaml.MapSlice)
	if !ok {
		return fmt.Errorf("%s has no keys", path[0])
	}
	if err := set(&below, path[1:], v); err != nil {
		return err
	}
	*place = below
	return nil
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

func remove(m *yaml.MapSlice, path []string) {
	i := index(*m, path[0])
	if i < 0 {
		return
	}
	if len(path) == 1 {
		*m = slices.Delete(*m, i, i+1)
		return
	}
	if below, ok := (*m)[i].Value.(yaml.MapSlice); ok {
		remove(&below, path[1:])
		(*m)[i].Value = below
	}
}
