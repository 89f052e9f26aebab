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
	in, err := p.findInput(asked)
	if err != nil {
		return "", err
	}
	if err := in.check(); err != nil {
		return "", fmt.Errorf("%s: %w", p.inputPath(in.Scenario), err)
	}
	at := lake.Of(in.Scenario)
	s, err := lake.Waiting(ctx, wait, func() (*lake.Session, error) { return p.Lake.Lock(ctx, at) })
	if err != nil {
		return "", err
	}
	defer s.Close()
	if _, found, err := s.ReadManifest(at); err != nil || found {
		return in.Scenario, err
	}
	copies, err := p.copies(ctx, in.Scenario)
	if err != nil {
		return "", err
	}
	var files []lake.DataFile
	for _, d := range in.Files {
		pulled, err := p.pullFile(ctx, s, d, copies)
		if err != nil {
			return "", errors.Join(err, s.RemoveUncommitted(at))
		}
		files = append(files, pulled)
	}
	for _, name := range slices.Sorted(maps.Keys(in.State)) {
		if err := s.WriteStateDurably(at.StatePath(strings.Split(name, "/")...), in.State[name]); err != nil {
			return "", errors.Join(err, s.RemoveUncommitted(at))
		}
	}
	return in.Scenario, s.Commit(at, files)
}

// findInput reads the Input of a scenario. If several scenarios have the name, it is an error.
func (p *Publisher) findInput(asked string) (in Input, err error) {
	if id, err := lake.ParseScenarioID(asked); err == nil {
		in, err = p.readInput(p.inputPath(id))
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return in, err
		}
	}
	var found []Input
	err = p.Store.List(p.Store.Root+"/_parsimon", func(file string) error {
		in, err := p.readInput(p.Store.Root + "/_parsimon/" + path.Base(file))
		if err == nil && in.Name == asked {
			found = append(found, in)
		}
		return err
	})
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return in, err
	case len(found) == 0:
		return in, fmt.Errorf("%s has no scenario %q that can be pulled: parsimon publish --flows makes them so",
			p.Store.Root, asked)
	case len(found) > 1:
		return in, fmt.Errorf("%d scenarios of %s have the name %q: give the id, such as %s", len(found),
			p.Store.Root, asked, found[0].Scenario)
	}
	return found[0], nil
}

func (p *Publisher) readInput(path string) (in Input, err error) {
	content, err := p.Store.Read(path)
	if err != nil {
		return in, err
	}
	if err := json.Unmarshal(content, &in); err != nil {
		return in, fmt.Errorf("%s: %w", path, err)
	}
	return in, nil
}

// statePattern are the paths of the state files that an Input may have.
var statePattern = regexp.MustCompile(`^(spec\.json|generate/(plan|task-[0-9]{5})\.json)$`)

// filePattern are the names of the data files that an Input may have.
var filePattern = regexp.MustCompile(`^part-[0-9]{5}(~[0-9]+)?\.parquet$`)

// check returns an error if an Input is not one of this program and version. Its content is not trusted.
func (in Input) check() error {
	if in.SchemaVersion != schema.Version {
		return fmt.Errorf("it has schema version %d, and this program reads version %d", in.SchemaVersion,
			schema.Version)
	}
	if _, err := lake.ParseScenarioID(string(in.Scenario)); err != nil {
		return err
	}
	for name := range in.State {
		if !statePattern.MatchString(name) {
			return fmt.Errorf("it has a state file %q", name)
		}
	}
	for _, f := range in.Files {
		t, err := f.Table()
		if err != nil {
			return err
		}
		dir, name := path.Split(f.Path)
		if !inputTables[t.Name] || dir != lake.Of(in.Scenario).Dir(t)+"/" || !filePattern.MatchString(name) {
			return fmt.Errorf("it names file %q", f.Path)
		}
	}
	return nil
}

// copies returns the paths of the published copies of a scenario's input, by table and name.
func (p *Publisher) copies(ctx context.Context, id lake.ScenarioID) (map[string]string, error) {
	paths := map[string]string{}
	for name := range inputTables {
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
