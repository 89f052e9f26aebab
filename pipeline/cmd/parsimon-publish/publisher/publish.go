// Package publisher copies scenarios of a lake to Iceberg tables, and back.
//
//	lake: manifests ─► files to publish ─► copies of those that are missing ─► one commit a table
//
// A copy keeps the bytes of its file, and its name has their digest. A table that has a file already is not
// changed, so publishing again does nothing, and a killed publisher is continued. Each table changes in one
// commit, which fails if another publisher has changed the table meanwhile. The publisher then compares
// again. The table of scenarios changes last, and a scenario that is removed leaves it first.
package publisher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"
	"github.com/rs/zerolog"

	"parsimon/pipeline/cmd/parsimon-publish/store"
	"parsimon/pipeline/cmd/parsimon-publish/tables"
	"parsimon/pipeline/lake"
	"parsimon/schema"
)

// A Publisher publishes scenarios of a lake.
type Publisher struct {
	Lake    *lake.Lake
	Store   *store.Store
	Catalog store.Catalog
	Tables  []tables.Published
	// Prune also removes scenarios that the lake does not have, from all tables of the store.
	Prune bool
	// AtOnce is the number of files that are copied concurrently.
	AtOnce int
	Log    zerolog.Logger
}

// A Change describes the effect of a call of Publish on a table.
type Change struct {
	Table    string `json:"table"`
	Snapshot int64  `json:"snapshot"` // the current one; 0: the table has no rows yet
	Added    int    `json:"added"`    // files
	Removed  int    `json:"removed"`  // files
	Bytes    int64  `json:"bytes"`    // sent to the store
}

// Publish makes the tables equal to the given scenarios of the lake. Other scenarios of the tables stay,
// unless the publisher prunes. If it fails, each table is as it was before or as it should be.
func (p *Publisher) Publish(ctx context.Context, ids []lake.ScenarioID) ([]Change, error) {
	lock := p.Lake.LockForReading()
	defer lock.Close()
	wanted, err := p.wanted(ids)
	if err != nil {
		return nil, err
	}
	changes := make([]Change, len(p.Tables))
	scenarios := slices.IndexFunc(p.Tables, func(t tables.Published) bool {
		return t.Table.Name == schema.Scenarios.Name
	})
	if err := p.bring(ctx, p.Tables[scenarios], wanted, removals, &changes[scenarios]); err != nil {
		return nil, err
	}
	for i, t := range p.Tables {
		if i == scenarios {
			if err := p.writeInputs(ctx, ids); err != nil {
				return changes[:i], err
			}
		}
		if err := p.bring(ctx, t, wanted, everything, &changes[i]); err != nil {
			return changes[:i], err
		}
	}
	if wanted.known == nil {
		return changes, nil
	}
	removed, err := p.prune(ctx, wanted)
	return append(changes, removed...), errors.Join(err, p.removeInputs(wanted.known))
}

// prune removes scenarios that the lake does not have from the tables that this call does not publish.
func (p *Publisher) prune(ctx context.Context, want *wanted) (changes []Change, err error) {
	for _, t := range p.others() {
		var done Change
		if err := p.bring(ctx, t, want, removals, &done); err != nil {
			return changes, err
		}
		if done.Removed > 0 {
			changes = append(changes, done)
		}
	}
	return changes, nil
}

// others returns the tables that other calls may have published, and this one does not.
func (p *Publisher) others() []tables.Published {
	all := tables.Of(tables.Selection{Flows: true, AllVariants: true})
	return slices.DeleteFunc(all, func(t tables.Published) bool {
		return slices.ContainsFunc(p.Tables, func(mine tables.Published) bool { return mine.Name == t.Name })
	})
}

// A part says which changes of a table are made.
type part int

const (
	everything part = iota
	removals        // remove scenarios that the tables should not have, and add nothing
)

// attempts is the number of times that a commit is tried while other publishers change the table or the
// catalog is unavailable.
const attempts = 20

// bring makes one table equal to what is wanted.
func (p *Publisher) bring(ctx context.Context, t tables.Published, want *wanted, which part,
	done *Change) error {
	done.Table = t.Name
	sent := map[string]string{} // full paths of the files that this call has copied, by name
	for attempt := 1; ; attempt++ {
		lost, err := p.try(ctx, &aim{t, want, which}, sent, done)
		if err == nil {
			return nil
		}
		err = fmt.Errorf("table %s: %w", t.Name, err)
		temporary := store.IsTemporary(err)
		if !lost && !temporary || attempt == attempts {
			return err
		}
		why := "another publisher has changed the table"
		if temporary {
			why = "the catalog did not answer"
		}
		p.Log.Info().Err(err).Msg(why + ": comparing again")
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Duration(rand.IntN(100*attempt)) * time.Millisecond):
		}
	}
}

// An aim is what a table should have.
type aim struct {
	tables.Published
	*wanted
	part
}

// try compares a table with what is wanted, and commits the difference. lost reports that another publisher
// has changed the table in the meantime.
func (p *Publisher) try(ctx context.Context, a *aim, sent map[string]string,
	done *Change) (lost bool, err error) {
	now, err := p.open(ctx, a.Published, a.part)
	if err != nil || now == nil {
		return errors.Is(err, table.ErrCommitFailed), err
	}
	d, err := p.compare(ctx, now, a)
	if err != nil {
		return false, err
	}
	current := now.CurrentSnapshot()
	if current != nil {
		done.Snapshot = current.SnapshotID
	}
	if len(d.add)+len(d.remove) == 0 {
		return false, nil
	}
	added, bytes, err := p.copyAll(ctx, now, d.add, sent)
	done.Bytes += bytes
	if err != nil {
		return false, err
	}
	after, err := commit(ctx, now, d.remove, added)
	if err != nil {
		return p.lost(ctx, now, err), err
	}
	done.Snapshot = after.CurrentSnapshot().SnapshotID
	done.Added += len(added)
	done.Removed += len(d.remove)
	return false, nil
}

// commit replaces files of a table. It fails if the table is no longer at the given version.
func commit(ctx context.Context, now *table.Table, remove, add []iceberg.DataFile) (*table.Table, error) {
	txn := now.NewTransaction()
	if err := txn.AssertRefSnapshotID(table.MainBranch); err != nil {
		return nil, err
	}
	summary := iceberg.Properties{schema.VersionKey: strconv.Itoa(schema.Version)}
	if err := txn.ReplaceDataFilesWithDataFiles(ctx, remove, add, summary); err != nil {
		return nil, err
	}
	return txn.Commit(ctx)
}

// lost reports whether a commit failed because another publisher has changed the table. Not every catalog
// reports this.
func (p *Publisher) lost(ctx context.Context, before *table.Table, err error) bool {
	if errors.Is(err, table.ErrCommitFailed) {
		return true
	}
	now, loadErr := p.Catalog.LoadTable(ctx, before.Identifier())
	return loadErr == nil && now.MetadataLocation() != before.MetadataLocation()
}

// open loads a table. If it does not exist, open creates it, or returns nil if only rows are to be removed.
// If another publisher adds a column at the same time, the error is table.ErrCommitFailed.
func (p *Publisher) open(ctx context.Context, t tables.Published, which part) (*table.Table, error) {
	now, err := p.Catalog.LoadTable(ctx, store.Identify(t.Name))
	if err == nil && which == removals {
		return now, nil
	}
	s, schemaErr := t.Schema()
	if schemaErr != nil {
		return nil, schemaErr
	}
	switch {
	case err == nil:
		return p.adapt(ctx, now, s)
	case !errors.Is(err, catalog.ErrNoSuchTable):
		return nil, err
	case which == removals:
		return nil, nil
	}
	spec, err := t.Spec(s)
	if err != nil {
		return nil, err
	}
	order, err := t.Order(s)
	if err != nil {
		return nil, err
	}
	props, err := t.Properties(s)
	if err != nil {
		return nil, err
	}
	now, err = p.Catalog.CreateTable(ctx, store.Identify(t.Name), s,
		catalog.WithLocation(p.Store.Root+"/"+t.Name), catalog.WithPartitionSpec(spec),
		catalog.WithSortOrder(order), catalog.WithProperties(props))
	if errors.Is(err, catalog.ErrTableAlreadyExists) { // another publisher was faster
		now, err = p.Catalog.LoadTable(ctx, store.Identify(t.Name))
	}
	if err != nil {
		return nil, err
	}
	return p.adapt(ctx, now, s)
}

// adapt adds the columns of a schema to a table, and writes the name mapping of all of its columns. If
// another publisher changes the table at the same time, the error is table.ErrCommitFailed.
func (p *Publisher) adapt(ctx context.Context, now *table.Table, s *iceberg.Schema) (*table.Table, error) {
	after, err := evolve(ctx, now, s)
	if err == nil {
		after, err = mapNames(ctx, after)
	}
	if err != nil && p.lost(ctx, now, err) {
		err = fmt.Errorf("%w: %w", table.ErrCommitFailed, err)
	}
	return after, err
}

// mapNames makes the name mapping of a table that of its columns. A catalog may give the columns of a new
// table other ids than those that it was asked for. By the old mapping, readers would then find one column of
// a file under the name of another one.
func mapNames(ctx context.Context, now *table.Table) (*table.Table, error) {
	mapping, err := json.Marshal(now.Schema().NameMapping())
	if err != nil || now.Properties()[table.DefaultNameMappingKey] == string(mapping) {
		return now, err
	}
	txn := now.NewTransaction()
	err = txn.SetProperties(iceberg.Properties{table.DefaultNameMappingKey: string(mapping)})
	if err != nil {
		return nil, err
	}
	return txn.Commit(ctx)
}

// evolve adds the columns that a table lacks. The ids of the others stay.
func evolve(ctx context.Context, now *table.Table, s *iceberg.Schema) (*table.Table, error) {
	txn := now.NewTransaction()
	update := txn.UpdateSchema(true, false, table.WithNameMapping(now.NameMapping()))
	changed := false
	for _, want := range s.Fields() {
		has, ok := now.Schema().FindFieldByName(want.Name)
		switch {
		case !ok:
			update.AddColumn([]string{want.Name}, want.Type, want.Doc, false, nil)
			changed = true
		case has.Type.String() == want.Type.String():
		case has.Type.Equals(iceberg.PrimitiveTypes.Int32) && want.Type.Equals(iceberg.PrimitiveTypes.Int64):
			update.UpdateColumn([]string{want.Name}, table.ColumnUpdate{FieldType: iceberg.Optional[iceberg.Type]{
				Val: want.Type, Valid: true}})
			changed = true
		default:
			return nil, fmt.Errorf("column %s has type %s, and this program writes %s: publish to another URL",
				want.Name, has.Type, want.Type)
		}
	}
	if !changed {
		return now, nil
	}
	if err := update.Commit(); err != nil {
		return nil, err
	}
	return txn.Commit(ctx)
}
