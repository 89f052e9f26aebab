package names_test

import (
	"strings"
	"testing"

	"parsimon/schema/names"
)

func TestFind(t *testing.T) {
	all := []names.Thing{
		{ID: "cafe0000deadbeef", Names: []string{"base"}},
		{ID: "0123456789abcdef", Names: []string{"cafe", "old"}}, // its name begins the id of the first
		{ID: "0123ffff00000000", Names: []string{"twice"}, About: func() string { return "of today" }},
		{ID: "feed000000000000", Names: []string{"twice", "0123456789abcdef"}},
	}
	for _, c := range []struct {
		asked      string
		part, full string // the id found, or a part of the error, with beginnings of ids and without
	}{
		{"cafe0000deadbeef", "cafe0000deadbeef", "cafe0000deadbeef"},
		{"0123456789abcdef", "0123456789abcdef", "0123456789abcdef"}, // an id comes before a name
		{"base", "cafe0000deadbeef", "cafe0000deadbeef"},
		{"old", "0123456789abcdef", "0123456789abcdef"},
		{"cafe", "may be any of", "0123456789abcdef"},
		{"cafe0", "cafe0000deadbeef", "no scenario"},
		{"0123", "may be any of", "no scenario"},
		{"caf", "no scenario", "no scenario"},
		{"twice", "feed000000000000", `0123ffff00000000 of today ("twice"), feed`}, // the last, and a note
		{"", "is empty", "is empty"},
		{"basf", `lake; it holds cafe0000deadbeef ("base")`, "lake; it holds cafe0000deadbeef"},
		{"cafe00", "cafe0000deadbeef", "whole ids and names only"},
	} {
		for match, want := range map[names.Match]string{names.Abbreviated: c.part, names.Exact: c.full} {
			at, note, err := names.Find("scenario", c.asked, "lake", all, match)
			said := strings.Contains(note, "its id: 0123ffff00000000 of today")
			if said != (err == nil && c.asked == "twice") {
				t.Errorf("%q, match %v: note %q", c.asked, match, note)
			}
			if err != nil && strings.Contains(err.Error(), want) || err == nil && all[at].ID == want {
				continue
			}
			t.Errorf("%q, match %v: found %d, error %v; want %s", c.asked, match, at, err, want)
		}
	}
}
