package ingest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
)

// valueKey is the key of a leaf that is not an object.
const valueKey = "value"

// eachLeaf adds the leaves of nested lists, each as one JSON object. The object has the scalar values of the
// objects around the leaf, the innermost ones taking precedence, and the leaf itself, as its keys or as
// value. A path has the keys from the outermost list to the innermost. The first path that leads to a leaf
// applies to a file. The file is one object, one list, or JSON lines. Its objects contain the outermost list
// or are elements of it. Scalars that follow the outermost list in its object are not read.
func eachLeaf(paths [][]string, r *bufio.Reader, w *lineWriter) error {
	first, err := firstByte(r)
	if err != nil {
		return err
	}
	bounded := &elementReader{r: r, left: maxElement}
	d := json.NewDecoder(bounded)
	d.UseNumber()
	l := leaves{paths: paths, w: w}
	if first == '[' {
		if _, err = d.Token(); err == nil {
			err = l.list(d, bounded)
		}
		_, after := d.Token()
		if err == nil && !errors.Is(after, io.EOF) {
			err = fmt.Errorf("the file continues after the JSON list, from byte %d", d.InputOffset())
		}
		return err
	}
	for err == nil {
		bounded.left = maxElement
		err = l.object(d, bounded)
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

type leaves struct {
	paths  [][]string
	w      *lineWriter
	around map[string]any // scalars of the object around the outermost list, before the list
}

// list adds the elements of a list whose beginning has been read, and reads its end.
func (l *leaves) list(d *json.Decoder, bounded *elementReader) error {
	for n := 1; d.More(); n++ {
		bounded.left = maxElement
		var element map[string]any
		if err := d.Decode(&element); err != nil {
			return fmt.Errorf("element %d of the list, %w", n, cutShort(d, err))
		}
		if err := l.element(element); err != nil {
			return err
		}
	}
	_, err := d.Token()
	if err != nil {
		err = fmt.Errorf("the list is cut short: %w", cutShort(d, err))
	}
	return err
}

// object reads one object, which contains the outermost list or is an element of it. The error is io.EOF at
// the end.
func (l *leaves) object(d *json.Decoder, bounded *elementReader) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	if token != json.Delim('{') {
		return fmt.Errorf("byte %d: want a JSON object, got %v", d.InputOffset(), token)
	}
	element := map[string]any{}
	contains := false
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return cutShort(d, err)
		}
		outermost := false
		for _, path := range l.paths {
			outermost = outermost || key == path[0]
		}
		if outermost {
			if open, err := d.Token(); err != nil || open != json.Delim('[') {
				return fmt.Errorf("byte %d: key %v: want a list", d.InputOffset(), key)
			}
			contains = true
			l.around = scalars(element)
			if err := l.list(d, bounded); err != nil {
				return err
			}
			l.around = nil
			continue
		}
		var value any
		if err := d.Decode(&value); err != nil {
			return cutShort(d, err)
		}
		element[key.(string)] = value
	}
	if _, err := d.Token(); err != nil {
		return cutShort(d, err)
	}
	if contains {
		return nil
	}
	return l.element(element)
}

// scalars returns the values of an object that are neither objects nor lists.
func scalars(object map[string]any) map[string]any {
	found := maps.Clone(object)
	maps.DeleteFunc(found, func(_ string, value any) bool {
		switch value.(type) {
		case map[string]any, []any:
			return true
		}
		return false
	})
	return found
}

// cutShort adds the place to an error within an object or a list, in which an end is unexpected.
func cutShort(d *json.Decoder, err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("byte %d: %w", d.InputOffset(), err)
}

// element adds the leaves below an element of the outermost list. An element that is null has none.
func (l *leaves) element(element map[string]any) error {
	if element == nil {
		return nil
	}
	for _, path := range l.paths {
		before := l.w.n
		if err := l.below(element, path[1:], l.around); err != nil || l.w.n > before {
			return err
		}
	}
	return nil
}

// below adds the leaves below a value. around has the scalar values of the objects around it.
func (l *leaves) below(v any, path []string, around map[string]any) error {
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			if err := l.below(one, path, around); err != nil {
				return err
			}
		}
		return nil
	case map[string]any:
		inner := scalars(v)
		for key, value := range around {
			if _, hidden := inner[key]; !hidden {
				inner[key] = value
			}
		}
		around = inner
		if len(path) > 0 {
			return l.below(v[path[0]], path[1:], around)
		}
	case nil:
		return nil
	default:
		if len(path) > 0 {
			return nil
		}
		around = maps.Clone(around)
		around[valueKey] = v
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(around); err != nil {
		return err
	}
	return l.w.add(bytes.TrimSpace(b.Bytes()), 0, "")
}

// parseEach parses the paths of header line each: keys separated by points, and paths separated by |.
func parseEach(text string) (paths [][]string, err error) {
	for _, path := range strings.Split(text, "|") {
		keys := strings.Split(strings.TrimSpace(path), ".")
		for _, key := range keys {
			if key == "" {
				return nil, fmt.Errorf("want keys with points between them, such as records.flows, got %q", path)
			}
		}
		paths = append(paths, keys)
	}
	return paths, nil
}
