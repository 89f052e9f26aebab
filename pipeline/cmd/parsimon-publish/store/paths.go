package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"
)

// A Catalog names the current version of each table.
type Catalog interface {
	table.CatalogIO
	CreateTable(context.Context, table.Identifier, *iceberg.Schema,
		...catalog.CreateTableOpt) (*table.Table, error)
}

// paths is a catalog without a service: the versions of a table are numbered files.
//
//	ROOT/TABLE/metadata/v1.metadata.json, v2.…   created, never replaced: one writer of a version wins
//	ROOT/TABLE/metadata/version-hint.text        the number of the last version, or of an earlier one
//
// A reader that trusts the hint sees a complete version, and after each successful commit the last one. The
// library's own catalog of this form renames files, which buckets cannot do in one step.
type paths struct{ store *Store }

// NewPaths returns the catalog of the tables below the root of a store.
func NewPaths(s *Store) Catalog { return paths{s} }

func (p paths) dir(ident table.Identifier) string {
	return p.store.Root + "/" + ident[len(ident)-1] + "/metadata/"
}

func (p paths) file(ident table.Identifier, version int) string {
	return p.dir(ident) + "v" + strconv.Itoa(version) + ".metadata.json"
}

const hintFile = "version-hint.text"

// LoadTable loads the last version of a table.
func (p paths) LoadTable(ctx context.Context, ident table.Identifier) (*table.Table, error) {
	version, err := p.last(ident)
	if err != nil {
		return nil, err
	}
	return table.NewFromLocation(ctx, ident, p.file(ident, version), p.store.FS, p)
}

// last returns the number of the last version. If the hint is missing or names an earlier one, because a
// publisher was killed, last writes it again.
func (p paths) last(ident table.Identifier) (int, error) {
	hint, err := p.hint(ident)
	if err != nil {
		return 0, err
	}
	last := hint
	if hint == 0 {
		if last, err = p.listed(ident); err != nil {
			return 0, err
		}
		if last == 0 {
			return 0, fmt.Errorf("%w: %s", catalog.ErrNoSuchTable, p.dir(ident))
		}
	}
	if last, err = p.newest(ident, last); err != nil {
		return 0, err
	}
	if last != hint {
		err = p.writeHint(ident, last)
	}
	return last, err
}

// hint returns the content of the hint; 0: there is none.
func (p paths) hint(ident table.Identifier) (int, error) {
	data, err := p.store.Read(p.dir(ident) + hintFile)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	version, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || version < 1 {
		return 0, fmt.Errorf("%s%s has no version number", p.dir(ident), hintFile)
	}
	return version, nil
}

var versionName = regexp.MustCompile(`^v([0-9]{1,9})\.metadata\.json$`)

// listed returns the largest number of a version in the directory of a table; 0: there is none.
func (p paths) listed(ident table.Identifier) (last int, err error) {
	err = p.store.List(strings.TrimSuffix(p.dir(ident), "/"), func(file string) error {
		m := versionName.FindStringSubmatch(path.Base(file))
		if m != nil {
			version, _ := strconv.Atoi(m[1]) // up to 9 digits
			last = max(last, version)
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	return last, err
}

// newest returns the last version of those that follow a known one.
func (p paths) newest(ident table.Identifier, known int) (int, error) {
	for {
		_, _, err := p.store.Stat(p.file(ident, known+1))
		if errors.Is(err, fs.ErrNotExist) {
			return known, nil
		}
		if err != nil {
			return 0, err
		}
		known++
	}
}

// writeHint writes the hint. If another publisher commits meanwhile, its hint may be written first, so
// writeHint looks for later versions again.
func (p paths) writeHint(ident table.Identifier, version int) error {
	for {
		err := p.store.Put(context.Background(), p.dir(ident)+hintFile, func(w io.Writer) error {
			_, err := io.WriteString(w, strconv.Itoa(version))
			return err
		})
		if err != nil {
			return fmt.Errorf("version %d is committed, but not its hint: publish again: %w", version, err)
		}
		later, err := p.newest(ident, version)
		if err != nil || later == version {
			return err
		}
		version = later
	}
}

// CreateTable creates a table without rows. If it exists, the error is catalog.ErrTableAlreadyExists.
func (p paths) CreateTable(ctx context.Context, ident table.Identifier, s *iceberg.Schema,
	opts ...catalog.CreateTableOpt) (*table.Table, error) {
	config := catalog.NewCreateTableCfg()
	for _, opt := range opts {
		opt(&config)
	}
	meta, err := table.NewMetadata(s, config.PartitionSpec, config.SortOrder, config.Location, config.Properties)
	if err != nil {
		return nil, err
	}
	err = p.write(ctx, ident, 1, meta)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("%w: %s", catalog.ErrTableAlreadyExists, p.dir(ident))
	}
	if err != nil {
		return nil, err
	}
	return table.New(ident, meta, p.file(ident, 1), p.store.FS, p), nil
}

// CommitTable makes the next version. If another publisher has made it, the error is table.ErrCommitFailed.
func (p paths) CommitTable(ctx context.Context, ident table.Identifier, reqs []table.Requirement,
	updates []table.Update) (table.Metadata, string, error) {
	version, err := p.last(ident)
	if err != nil {
		return nil, "", err
	}
	now, err := table.NewFromLocation(ctx, ident, p.file(ident, version), p.store.FS, p)
	if err != nil {
		return nil, "", err
	}
	for _, r := range reqs {
		if err := r.Validate(now.Metadata()); err != nil {
			return nil, "", fmt.Errorf("%w: %w", table.ErrCommitFailed, err)
		}
	}
	meta, err := table.UpdateTableMetadata(now.Metadata(), updates, now.MetadataLocation())
	if err != nil {
		return nil, "", err
	}
	err = p.write(ctx, ident, version+1, meta)
	if errors.Is(err, fs.ErrExist) {
		return nil, "", fmt.Errorf("%w: another publisher has made version %d", table.ErrCommitFailed, version+1)
	}
	return meta, p.file(ident, version+1), err
}

// write creates the file of a version, and writes the hint.
func (p paths) write(ctx context.Context, ident table.Identifier, version int, meta table.Metadata) error {
	var content bytes.Buffer
	if err := json.NewEncoder(&content).Encode(meta); err != nil {
		return err
	}
	if err := p.store.Create(ctx, p.file(ident, version), content.Bytes()); err != nil {
		return err
	}
	return p.writeHint(ident, version)
}
