package scenario

import (
	"path/filepath"
	"slices"
	"strings"

	"parsimon/datasets"
	"parsimon/schema/tree"
	"parsimon/schema/units"
	"parsimon/stages/topology"
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
func (r *scenarioReader) readService(item tree.Field) (serviceSpec, error) {
	s := serviceSpec{matrixKind: workload.MatrixUniform, matrixSeed: 1, sigma: 1, share: 1}
	given := map[string]tree.Field{}
	note := func(key string, read func(tree.Field) error) func(tree.Field) error {
		return func(f tree.Field) error {
			given[key] = f
			return read(f)
		}
	}
	sigma := tree.ReadFloat(&s.sigma, false, "0 to 8", func(x float64) bool { return x >= 0 && x <= 8 })
	share := tree.ReadFloat(&s.share, true, "above 0 and at most 10^9", func(x float64) bool { return x > 0 && x <= 1e9 })
	err := item.Object(tree.Keys{
		"name":     tree.ReadText(&s.name),
		"vnet":     tree.ReadText(&s.vnet),
		"matrix":   note("matrix", func(f tree.Field) error { return r.readMatrix(f, &s) }),
		"racks":    note("racks", func(f tree.Field) error { return readRacks(f, &s) }),
		"pairs":    note("pairs", func(f tree.Field) error { return readPairs(f, &s) }),
		"sizes":    note("sizes", func(f tree.Field) error { return r.readSizes(f, &s) }),
		"arrivals": note("arrivals", func(f tree.Field) error { return readArrivals(f, &s) }),
		"sigma":    note("sigma", sigma),
		"share":    note("share", share),
		"twin_of":  note("twin_of", tree.ReadText(&s.twinOf)),
	})
	if err == nil {
		err = refuseBoth(given, "pairs", "matrix", "racks")
	}
	if err == nil {
		err = refuseBoth(given, "twin_of", "sizes", "arrivals", "sigma", "share")
	}
	if err != nil {
		return s, err
	}
	if at, twin := given["twin_of"]; twin {
		o := r.service(s.twinOf)
		if o == nil || o.twinOf != "" {
			return s, at.Failf("is %q, want the name of a service that stands before this one and is no twin itself", s.twinOf)
		}
		s.sizes, s.poisson, s.sigma, s.share = o.sizes, o.poisson, o.sigma, o.share
	}
	if at, ok := given["sigma"]; ok && s.poisson {
		return s, at.Failf("has no meaning with poisson arrivals")
	}
	if s.poisson {
		s.sigma = 0
	}
	switch {
	case s.name == "":
		return s, item.Failf("has no name")
	case r.service(s.name) != nil:
		return s, item.Failf("is named %q like another service", s.name)
	case s.sizes == nil:
		return s, item.Failf("has no sizes")
	}
	return s, nil
}

// refuseBoth reports a key that is given beside another one that excludes it.
func refuseBoth(given map[string]tree.Field, key string, others ...string) error {
	for _, other := range others {
		_, a := given[key]
		if f, b := given[other]; a && b {
			return f.Failf("has no meaning beside %s", key)
		}
	}
	return nil
}

// service returns the service of that name among those read so far, or nil.
func (r *scenarioReader) service(name string) *serviceSpec {
	i := slices.IndexFunc(r.workload.services, func(o serviceSpec) bool { return o.name == name })
	if i < 0 {
		return nil
	}
	return &r.workload.services[i]
}

func readArrivals(f tree.Field, s *serviceSpec) error {
	text, err := f.Scalar()
	if err != nil {
		return err
	}
	if text != "poisson" && text != "lognormal" {
		return f.Failf("is %q, want poisson or lognormal", text)
	}
	s.poisson = text == "poisson"
	return nil
}

// matrixKinds are the matrices that are made for a network.
var matrixKinds = []string{workload.MatrixUniform, workload.MatrixDatabase, workload.MatrixWebServer,
	workload.MatrixHadoop}

// readMatrix reads the traffic matrix of a service: a kind, which is made for the scenario's network, or a .csv or
// .json file of weights, [sending rack][receiving rack]; as text, or as an object with a seed of the kind.
func (r *scenarioReader) readMatrix(f tree.Field, s *serviceSpec) error {
	kind := func(f tree.Field) error {
		text, err := f.Scalar()
		if err != nil {
			return err
		}
		if !slices.Contains(matrixKinds, text) {
			return f.Failf("is %q, want %s, or a .csv or .json file", text, strings.Join(matrixKinds, ", "))
		}
		s.matrixKind = text
		return nil
	}
	file := func(f tree.Field) error {
		path, err := r.path(f)
		if err != nil {
			return err
		}
		s.matrix, err = workload.ReadMatrix(path)
		return err
	}
	if f.Is(tree.Object) {
		seed := tree.ReadParsed(&s.matrixSeed, units.ParseSeed)
		return f.Object(tree.Keys{"kind": kind, "file": file, "seed": seed})
	}
	text, err := f.Scalar()
	if err != nil {
		return err
	}
	if ext := strings.ToLower(filepath.Ext(text)); ext == ".csv" || ext == ".json" {
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
		s.sizes, err = workload.ParseSizeCDF(text, data)
		return err
	}
	if bytes, err := units.Parse(text, units.Bytes); err == nil {
		if s.sizes, err = workload.NewSizeCDF([]workload.SizePoint{{Bytes: bytes, Percent: 100}}); err != nil {
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
	s.sizes, err = workload.ReadSizeCDF(path)
	return err
}

// readRacks reads the numbers of the racks that a service is limited to, each once. Whether the network has them is
// checked later (Workload), with racksAt for the message.
func readRacks(f tree.Field, s *serviceSpec) error {
	s.racks = []int{}
	err := f.Each(func(item tree.Field) error {
		var rack int
		if err := tree.ReadInt(&rack, 0, maxRacks)(item); err != nil {
			return err
		}
		if slices.Contains(s.racks, rack) {
			return item.Failf("is %d for the second time", rack)
		}
		s.racks, s.racksAt = append(s.racks, rack), append(s.racksAt, item)
		return nil
	})
	if err == nil && len(s.racks) == 0 {
		return f.Failf("has no rack; leave the key out for all")
	}
	return err
}

func readPairs(f tree.Field, s *serviceSpec) error {
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

// hostPairs finds the nodes that pairs name; nil for none.
func hostPairs(n *topology.Network, pairs []tree.Field) ([][2]int32, error) {
	var out [][2]int32
	for _, item := range pairs {
		text, err := item.Scalar()
		if err != nil {
			return nil, err
		}
		a, b, err := n.Pair(text)
		if err != nil {
			return nil, item.Failf("is %q: %w", text, err)
		}
		out = append(out, [2]int32{a, b})
	}
	return out, nil
}
