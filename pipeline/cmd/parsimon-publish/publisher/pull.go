package publisher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/apache/iceberg-go/catalog"

	"parsimon/pipeline/cmd/parsimon-publish/store"
	"parsimon/pipeline/lake"
	"parsimon/queries"
	"parsimon/schema"
)

// Pull writes the input of a published scenario into the lake, which may then estimate it and derive other
// scenarios from it. asked is the id or the name of the scenario. It returns the id. A lake that has the
// scenario stays as it is.
func (p *Publisher) Pull(ctx context.Context, asked string, wait time.Duration) (lake.ScenarioID, error) {
	b, err := p.findBundle(asked)
	if err != nil {
		return "", err
	}
	if err := b.check(); err != nil {
		return "", fmt.Errorf("%s: %w", p.bundlePath(b.Scenario), err)
	}
	at := lake.Of(b.Scenario)
	s, err := lake.Waiting(ctx, wait, func() (*lake.Session, error) { return p.Lake.Lock(ctx, at) })
	if err != nil {
		return "", err
	}
	defer s.Close()
	if _, found, err := s.ReadManifest(at); err != nil || found {
		return b.Scenario, err
	}
	copies, err := p.copies(ctx, b.Scenario)
	if err != nil {
		return "", err
	}
	var files []lake.DataFile
	for _, d := range b.Files {
		pulled, err := p.pullFile(ctx, s, d, copies)
		if err != nil {
			return "", errors.Join(err, s.RemoveUncommitted(at))
		}
		files = append(files, pulled)
	}
	for _, name := range slices.Sorted(maps.Keys(b.State)) {
		if err := s.WriteStateDurably(at.StatePath(strings.Split(name, "/")...), b.State[name]); err != nil {
			return "", errors.Join(err, s.RemoveUncommitted(at))
		}
	}
	return b.Scenario, s.Commit(at, files)
}

// findBundle reads the bundle of a scenario. If several scenarios have the name, it is an error.
func (p *Publisher) findBundle(asked string) (b Bundle, err error) {
	if id, err := lake.ParseScenarioID(asked); err == nil {
		b, err = p.readBundle(p.bundlePath(id))
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return b, err
		}
	}
	var found []Bundle
	err = p.Store.List(p.Store.Root+"/_parsimon", func(file string) error {
		b, err := p.readBundle(p.Store.Root + "/_parsimon/" + path.Base(file))
		if err == nil && b.Name == asked {
			found = append(found, b)
		}
		return err
	})
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return b, err
	case len(found) == 0:
		return b, fmt.Errorf("%s has no scenario %q that can be pulled: parsimon publish --flows makes them so",
			p.Store.Root, asked)
	case len(found) > 1:
		return b, fmt.Errorf("%d scenarios of %s have the name %q: give the id, such as %s", len(found),
			p.Store.Root, asked, found[0].Scenario)
	}
	return found[0], nil
}

func (p *Publisher) readBundle(path string) (b Bundle, err error) {
	content, err := p.Store.Read(path)
	if err != nil {
		return b, err
	}
	if err := json.Unmarshal(content, &b); err != nil {
		return b, fmt.Errorf("%s: %w", path, err)
	}
	return b, nil
}

// statePattern are the paths of the state files that a bundle may have.
var statePattern = regexp.MustCompile(`^(spec\.json|generate/(plan|task-[0-9]{5})\.json)$`)

// filePattern are the names of the data files that a bundle may have.
var filePattern = regexp.MustCompile(`^part-[0-9]{5}(~[0-9]+)?\.parquet$`)

// check returns an error if a bundle is not one of this program and version. Its content is not trusted.
func (b Bundle) check() error {
	if b.SchemaVersion != schema.Version {
		return fmt.Errorf("it has schema version %d, and this program reads version %d", b.SchemaVersion,
			schema.Version)
	}
	if _, err := lake.ParseScenarioID(string(b.Scenario)); err != nil {
		return err
	}
	for name := range b.State {
		if !statePattern.MatchString(name) {
			return fmt.Errorf("it has a state file %q", name)
		}
	}
	for _, f := range b.Files {
		t, err := f.Table()
		if err != nil {
			return err
		}
		dir, name := path.Split(f.Path)
		if !inputs[t.Name] || dir != lake.Of(b.Scenario).Dir(t)+"/" || !filePattern.MatchString(name) {
			return fmt.Errorf("it names file %q", f.Path)
		}
	}
	return nil
}

// copies returns the paths of the published copies of a scenario's input, by table and name.
func (p *Publisher) copies(ctx context.Context, id lake.ScenarioID) (map[string]string, error) {
	paths := map[string]string{}
	for name := range inputs {
		now, err := p.Catalog.LoadTable(ctx, store.Identify(name))
		if errors.Is(err, catalog.ErrNoSuchTable) {
			continue
		}
		if err != nil {
			return nil, err
		}
		files, err := filesOf(ctx, now)
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			if strings.HasPrefix(nameOf(f.FilePath()), "scenario="+string(id)+"/") {
				paths[name+"/"+nameOf(f.FilePath())] = f.FilePath()
			}
		}
	}
	return paths, nil
}

// pullFile copies one file into the lake, and verifies it.
func (p *Publisher) pullFile(ctx context.Context, s *lake.Session, d lake.DataFile,
	copies map[string]string) (lake.DataFile, error) {
	t, err := d.Table()
	if err != nil {
		return d, err
	}
	scenario, _, _ := strings.Cut(strings.TrimPrefix(d.Path, t.Name+"/scenario="), "/")
	if d.Rows == 0 { // such a file is not published
		return s.WriteFile(t, lake.Of(lake.ScenarioID(scenario)), d.Path)
	}
	f := lakeFile{File: queries.File{Path: d.Path, Scenario: scenario}, data: d}
	from, ok := copies[t.Name+"/"+f.name()]
	if !ok {
		return d, fmt.Errorf("%s is not in table %s: it is being published, or was published without --flows",
			d.Path, t.Name)
	}
	if err := ctx.Err(); err != nil {
		return d, err
	}
	in, err := p.Store.Open(from)
	if err != nil {
		return d, fmt.Errorf("%s: %w", from, err)
	}
	pulled, err := s.Import(d, in)
	return pulled, errors.Join(err, in.Close())
}
