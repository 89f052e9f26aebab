package scenario

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"parsimon/datasets"
	"parsimon/schema/tree"
	"parsimon/schema/units"
	"parsimon/stages/workload"
)

// readServices reads services in the order of the file: a twin refers to a service before it.
func (r *scenarioReader) readServices(f tree.Field) error {
	if n := len(f.Value.Items); n > 10_000 {
		return f.Failf("are %d, at most 10,000 are read", n)
	}
	return f.Each(func(item tree.Field) error {
		s, err := r.readService(item)
		r.workload.services = append(r.workload.services, s)
		return err
	})
}

// readService reads one service. Racks and a matrix, or pairs, say who talks to whom; sizes, arrivals, sigma and share
// say how much, and a twin takes these over from another service.
func (r *scenarioReader) readService(item tree.Field) (s serviceSpec, err error) {
	s = serviceSpec{Service: workload.Service{Sigma: 1, Share: 1}, matrixKind: workload.MatrixUniform, matrixSeed: 1}
	err = item.Object(tree.Keys{
		"name":   tree.ReadText(&s.Name),
		"vnet":   tree.ReadText(&s.VNet),
		"dscp":   tree.ReadParsed(&s.DSCP, parseDSCP),
		"matrix": func(f tree.Field) error { return r.readMatrix(f, &s) },
		"racks":  s.readRacks,
		"hosts": func(f tree.Field) error {
			s.hosts, s.hostsAt = []string{}, f
			return tree.ReadList(&s.hosts, tree.Verbatim)(f)
		},
		"pairs": s.readPairs,
		"sizes": func(f tree.Field) error { return r.readSizes(f, &s) },
		"arrivals": tree.ReadParsed(&s.Poisson, func(text string) (bool, error) {
			if text != "poisson" && text != "lognormal" {
				return false, fmt.Errorf("is %q, want poisson or lognormal", text)
			}
			return text == "poisson", nil
		}),
		"sigma": tree.ReadFloat(&s.Sigma, false, "0 to 8", func(x float64) bool { return x >= 0 && x <= 8 }),
		"share": tree.ReadFloat(&s.Share, true, "above 0 and at most 10^9",
			func(x float64) bool { return x > 0 && x <= 1e9 }),
		"twin_of": tree.ReadText(&s.TwinOf),
	})
	given := func(key string) bool { return item.Value.Get(key) != nil }
	for _, pair := range [][2]string{{"pairs", "matrix"}, {"pairs", "racks"}, {"pairs", "hosts"}, {"twin_of", "sizes"},
		{"twin_of", "arrivals"}, {"twin_of", "sigma"}, {"twin_of", "share"}} {
		if err == nil && given(pair[0]) && given(pair[1]) {
			err = item.Of(pair[1]).Failf("has no meaning beside %s", pair[0])
		}
	}
	if err != nil {
		return s, err
	}
	if given("twin_of") {
		o := r.service(s.TwinOf)
		if o == nil || o.TwinOf != "" {
			return s, item.Of("twin_of").Failf("is %q, want the name of a service that stands before this one and is no "+
				"twin itself", s.TwinOf)
		}
		s.Sizes, s.Poisson, s.Sigma, s.Share = o.Sizes, o.Poisson, o.Sigma, o.Share
	}
	switch {
	case given("sigma") && s.Poisson:
		return s, item.Of("sigma").Failf("has no meaning with poisson arrivals")
	case s.Name == "":
		return s, item.Failf("has no name")
	case r.service(s.Name) != nil:
		return s, item.Failf("is named %q like another service", s.Name)
	case s.Sizes == nil:
		return s, item.Failf("has no sizes")
	}
	if s.Poisson {
		s.Sigma = 0
	}
	return s, nil
}

// service returns the service of that name among those read so far, or nil.
func (s *Scenario) service(name string) *serviceSpec {
	i := slices.IndexFunc(s.workload.services, func(o serviceSpec) bool { return o.Name == name })
	if i < 0 {
		return nil
	}
	return &s.workload.services[i]
}

// readMatrix reads the traffic matrix of a service: a kind, which is made for the scenario's network, or a .csv or
// .json file of weights, [sending rack][receiving rack]; as text, or as an object with a seed of the kind.
func (r *scenarioReader) readMatrix(f tree.Field, s *serviceSpec) error {
	kind := tree.ReadParsed(&s.matrixKind, func(text string) (string, error) {
		if !slices.Contains(workload.MatrixKinds, text) {
			return "", fmt.Errorf("is %q, want %s, or a .csv or .json file", text, strings.Join(workload.MatrixKinds, ", "))
		}
		return text, nil
	})
	file := func(f tree.Field) error {
		path, err := r.path(f)
		if err == nil {
			s.Matrix, err = workload.ReadMatrix(path)
		}
		return err
	}
	if f.Is(tree.Object) {
		seed := tree.ReadParsed(&s.matrixSeed, units.ParseSeed)
		return f.Object(tree.Keys{"kind": kind, "file": file, "seed": seed})
	}
	if ext := strings.ToLower(filepath.Ext(f.Value.Text)); ext == ".csv" || ext == ".json" {
		return file(f)
	}
	return kind(f)
}

// readSizes reads the flow sizes of a service: a distribution that ships, one size for all flows, or a file with a
// cumulative distribution. A name that ships comes before a file of the same name.
func (r *scenarioReader) readSizes(f tree.Field, s *serviceSpec) error {
	text, err := f.Scalar()
	if err != nil {
		return err
	}
	if data, err := datasets.Read(datasets.Sizes, text); err == nil {
		s.Sizes, err = workload.ParseSizeCDF(text, data)
		return err
	}
	if bytes, err := units.Parse(text, units.Bytes); err == nil {
		if s.Sizes, err = workload.NewSizeCDF([]workload.SizePoint{{Bytes: bytes, Percent: 100}}); err != nil {
			return f.Failf("is %s: %w", text, err)
		}
		return nil
	}
	if !strings.ContainsAny(text, `./\`) {
		shipped := strings.Join(datasets.Names(datasets.Sizes), ", ")
		return f.Failf("is %q, want %s, one size such as 10KB, or a file", text, shipped)
	}
	path, err := r.path(f)
	if err != nil {
		return err
	}
	s.Sizes, err = workload.ReadSizeCDF(path)
	return err
}

// readRacks reads the numbers of the racks that a service is limited to, each once. Whether the network has them is
// checked later (Workload), with racksAt for the message.
func (s *serviceSpec) readRacks(f tree.Field) error {
	s.Racks = []int{}
	err := f.Each(func(item tree.Field) error {
		var rack int
		if err := tree.ReadInt(&rack, 0, maxRacks)(item); err != nil {
			return err
		}
		if slices.Contains(s.Racks, rack) {
			return item.Failf("is %d for the second time", rack)
		}
		s.Racks, s.racksAt = append(s.Racks, rack), append(s.racksAt, item)
		return nil
	})
	if err == nil && len(s.Racks) == 0 {
		return f.Failf("has no rack; leave the key out for all")
	}
	return err
}

func (s *serviceSpec) readPairs(f tree.Field) error {
	if n := len(f.Value.Items); f.Is(tree.List) && (n < 1 || n > maxPairs) {
		return f.Failf("are %d, want 1 to %d", n, maxPairs)
	}
	return f.Each(func(item tree.Field) error {
		text, err := item.Scalar()
		if err == nil && !strings.Contains(text, ":") {
			err = item.Failf("is %q, want two hosts as A:B", text)
		}
		s.pairs = append(s.pairs, item)
		return err
	})
}
