// Package report writes one estimate of a lake, or two side by side, as one HTML page.
//
//	lake ──► questions (SQL, package queries) ──► answers ──┬─► headline, warnings, explanations (words)
//	                                                        └─► JSON ─┐
//	charts (Vega-Lite, package queries), themes, vega/*.js ─────────┴─► page.html.tmpl ──► one file
//
// The page is a single file of at most 1.5 MB that makes no request: the chart libraries, whose versions and
// digests fetch-vega pins, are part of it. Its size depends on the number of services, virtual networks and links
// but hardly on the number of flows, because every number on it is an aggregate computed by DuckDB.
//
// Texts of a trace, such as names of services, are untrusted. They reach the page in two ways only: through
// html/template, which escapes them, and as JSON in which <, > and & are escaped. The page's content security policy
// runs only those scripts whose digests it lists and allows no request at all.
package report
