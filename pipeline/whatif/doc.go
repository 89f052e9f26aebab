// Package whatif answers questions that need several estimates: what changes when a cable fails or a service grows
// (WhatIf, RunSweep), how two estimates differ (Compare), and how far an estimate is from the truth (Validate).
//
//	base ──────────────► estimate ─┐
//	 └─ scenario.Changes ─► estimate ─┴─► join flow by flow ─► percentiles, intervals, links that explain the change
package whatif
