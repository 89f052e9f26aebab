package queries

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// statement is what walk finds in a parse tree.
type statement struct {
	lake string // absolute path
	// relations are the names of the tables and views that the statement reads, in lower case.
	relations map[string]bool
	// defined are the names of its common table expressions, in lower case.
	defined map[string]bool
	// metadata is set if the statement lists or describes views (SHOW, DESCRIBE, duckdb_views(), …).
	metadata bool
}

// walk checks every object of a parse tree, whatever it is part of. A kind of node that a later version
// of DuckDB adds is walked too.
func (s *statement) walk(node any) error {
	switch n := node.(type) {
	case []any:
		for _, child := range n {
			if err := s.walk(child); err != nil {
				return err
			}
		}
	case map[string]any:
		if err := s.visit(n); err != nil {
			return err
		}
		for _, key := range slices.Sorted(maps.Keys(n)) { // sorted, so that the same error comes first each time
			if err := s.walk(n[key]); err != nil {
				return err
			}
		}
	}
	return nil
}

// visit checks one object of the parse tree.
func (s *statement) visit(n map[string]any) error {
	switch n["type"] {
	case "TABLE_FUNCTION":
		return s.visitTableFunction(n)
	case "BASE_TABLE":
		return s.visitTable(n)
	case "SHOW_REF":
		s.metadata = true
	case "FUNCTION":
		if name := functionName(n); deniedScalars[name] {
			return fmt.Errorf("%w; function %s is not allowed", ErrRefused, name)
		}
	}
	if ctes, ok := n["cte_map"].(map[string]any); ok {
		entries, _ := ctes["map"].([]any)
		for _, e := range entries {
			entry, _ := e.(map[string]any)
			if name, ok := entry["key"].(string); ok {
				s.defined[strings.ToLower(name)] = true
			}
		}
	}
	return nil
}

// visitTable checks a table name. FROM 'file' is a table name to the parser. DuckDB joins the parts of a
// qualified name with dots before it looks for a file.
func (s *statement) visitTable(n map[string]any) error {
	var parts []string
	for _, key := range []string{"catalog_name", "schema_name", "table_name"} {
		if part, _ := n[key].(string); part != "" {
			parts = append(parts, part)
		}
	}
	name := strings.Join(parts, ".")
	if strings.ContainsAny(name, `/\:`) {
		return s.checkPath(name)
	}
	s.relations[strings.ToLower(parts[len(parts)-1])] = true
	return nil
}

func functionName(function map[string]any) string {
	name, _ := function["function_name"].(string)
	return strings.ToLower(name)
}

func (s *statement) visitTableFunction(n map[string]any) error {
	function, _ := n["function"].(map[string]any)
	name := functionName(function)
	if plainFunctions[name] {
		s.metadata = s.metadata || strings.HasPrefix(name, "duckdb_") || strings.HasPrefix(name, "pragma_")
		return nil
	}
	arguments, _ := function["children"].([]any)
	if relationMacros[name] {
		return s.visitRelationMacro(name, arguments)
	}
	if !fileFunctions[name] {
		return fmt.Errorf("%w; table function %q is not allowed", ErrRefused, name)
	}
	if len(arguments) == 0 {
		return fmt.Errorf("%w; %s needs a path", ErrRefused, name)
	}
	return s.checkPaths(name, arguments[0])
}

var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// visitRelationMacro accepts the relation of a macro if it is a plain name. Other names could be files.
func (s *statement) visitRelationMacro(macro string, arguments []any) error {
	var name string
	if len(arguments) > 0 {
		a, _ := arguments[0].(map[string]any)
		switch a["type"] {
		case "COLUMN_REF":
			if names, _ := a["column_names"].([]any); len(names) == 1 {
				name, _ = names[0].(string)
			}
		case "VALUE_CONSTANT":
			value, _ := a["value"].(map[string]any)
			name, _ = value["value"].(string)
		}
	}
	if !plainName.MatchString(name) {
		return fmt.Errorf("%w; the relation of %s must be the name of a view or of a common table expression, "+
			"of letters, digits and _", ErrRefused, macro)
	}
	s.relations[strings.ToLower(name)] = true
	return nil
}

// checkPaths accepts a string literal or a list of them. A computed path is not known before the statement runs.
func (s *statement) checkPaths(function string, argument any) error {
	a, _ := argument.(map[string]any)
	switch a["type"] {
	case "VALUE_CONSTANT":
		value, _ := a["value"].(map[string]any)
		if path, ok := value["value"].(string); ok {
			return s.checkPath(path)
		}
	case "FUNCTION":
		if functionName(a) == "list_value" {
			paths, _ := a["children"].([]any)
			for _, path := range paths {
				if p, _ := path.(map[string]any); p["type"] != "VALUE_CONSTANT" {
					return fmt.Errorf("%w; the paths of %s must be string literals", ErrRefused, function)
				}
				if err := s.checkPaths(function, path); err != nil {
					return err
				}
			}
			return nil
		}
	}
	return fmt.Errorf("%w; the path of %s must be a string literal or a list of them", ErrRefused, function)
}

// checkPath accepts clean absolute paths below the lake. They may have the wildcards * and ?.
func (s *statement) checkPath(path string) error {
	inside := strings.HasPrefix(path, s.lake+string(filepath.Separator))
	if !inside || filepath.Clean(path) != path || strings.ContainsAny(path, `[]\`) {
		return fmt.Errorf("%w; path %q is not a clean absolute path below %s", ErrRefused, path, s.lake)
	}
	return nil
}
