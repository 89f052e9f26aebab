package queries

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	duckdriver "github.com/marcboeker/go-duckdb/v2"

	"parsimon/queries/duckdb"
)

// ErrRefused is wrapped by every error for a statement that may not run. Errors for a statement that is
// wrong or that fails do not wrap it.
var ErrRefused = duckdb.ErrRefused

// relationMacros are the table macros of the catalog. Their first argument is the name of a relation.
var relationMacros = []string{"percentiles", "percentiles_and_whole", "percentiles_of", "flow_groups"}

// checkType returns an error unless DuckDB's type of the statement is SELECT. It binds the statement, and
// so opens the files that it reads, but does not run it.
func checkType(conn *sql.Conn, text string) error {
	return conn.Raw(func(c any) error {
		preparer, ok := c.(driver.Conn)
		if !ok {
			return fmt.Errorf("unknown driver connection %T", c)
		}
		// Prepare without a context fails for several statements. PrepareContext would run all but the last.
		prepared, err := preparer.Prepare(text)
		if err != nil {
			return err
		}
		defer func() { _ = prepared.Close() }()
		stmt, ok := prepared.(*duckdriver.Stmt)
		if !ok {
			return fmt.Errorf("unknown driver statement %T", prepared)
		}
		kind, err := stmt.StatementType()
		if err != nil {
			return err
		}
		if kind != duckdriver.STATEMENT_TYPE_SELECT {
			return fmt.Errorf("%w; DuckDB's statement type of this is %d, not SELECT", ErrRefused, kind)
		}
		if stmt.NumInput() != 0 {
			return errors.New("the statement has parameters, which have no values here: write the values")
		}
		return nil
	})
}
