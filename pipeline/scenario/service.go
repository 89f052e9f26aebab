package scenario

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"parsimon/datasets"
	"parsimon/schema/tree"
	"parsimon/schema/units"
	"parsimon/simkernel"
	"parsimon/stages/rng"
	"parsimon/stages/topology"
	"parsimon/stages/workload"
	"parsimon/stages/workload/jobs"
)

// readServices reads services in the order of the file, because a twin refers to an earlier service.
func (r *scenarioReader) readServices(f tree.Field) error {
	n := len(f.Value.Items)
	if n > 10_000 {
		return f.Failf("are %d, at most 10,000 are read", n)
	}
	return f.Each(func(item tree.Field) error {
		s, err := r.readService(item)
		r.workload.services = append(r.workload.services, s)
		return err
	})
}

// readService reads one service. Racks and a matrix, or pairs, determine who communicates. Sizes, arrivals,
// sigma and share determine the amount of traffic; a twin copies them from another service.
func (r *scenarioReader) readService(item tree.Field) (s serviceSpec, err error) {
	s = serviceSpec{Service: workload.Service{Sigma: 1, Share: 1}, matrixKind: workload.MatrixUniform,
		matrixSeed: 1}
	err = item.Object(tree.Keys{
		"name":   tree.ReadText(&s.Name),
		"vnet":   tree.ReadText(&s.VNet),
		"dscp":   tree.ReadParsed(&s.DSCP, parseDSCP),
		"matrix": func(f tree.Field) error { return r.readMatrix(f, &s) },
		"racks":  s.readRacks,
		"hosts": func(f tree.Field) error {
			s.hosts = []string{}
			s.hostsAt = f
			return tree.ReadList(&s.hosts, tree.Verbatim)(f)
		},
		"pairs":    s.readPairs,
		"sizes":    func(f tree.Field) error { return r.readSizes(f, &s) },
		"arrivals": tree.ReadParsed(&s.Poisson, parseArrivals),
		"sigma":    tree.ReadFloat(&s.Sigma, "0 to 8", func(x float64) bool { return x >= 0 && x <= 8 }),
		"share": tree.ReadShare(&s.Share, "above 0 and at most 10^9",
			func(x float64) bool { return x > 0 && x <= 1e9 }),
		"twin_of": tree.ReadText(&s.TwinOf),
	})
	given := func(key string) bool { return item.Value.Get(key) != nil }
	for _, pair := range [][2]string{{"pairs", "matrix"}, {"pairs", "racks"}, {"pairs", "hosts"},
		{"twin_of", "sizes"},
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
			return s, item.Of("twin_of").Failf("is %q, want the name of a service before this one that "+
				"is not a twin itself", s.TwinOf)
		}
		s.Sizes = o.Sizes
		s.Poisson = o.Poisson
		s.Sigma = o.Sigma
		s.Share = o.Share
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

// parseArrivals reports whether arrivals are Poisson, and not lognormal.
func parseArrivals(text string) (poisson bool, err error) {
	if text != "poisson" && text != "lognormal" {
		return false, fmt.Errorf("is %q, want poisson or lognormal", text)
	}
	return text == "poisson", nil
}

// service returns the service with a name among those read so far, or nil.
func (s *Scenario) service(name string) *serviceSpec {
	i := slices.IndexFunc(s.workload.services, func(o serviceSpec) bool { return o.Name == name })
	if i < 0 {
		return nil
	}
	return &s.workload.services[i]
}

// readMatrix reads the traffic matrix of a service. It is a kind of matrix that is generated for the
// scenario's network, or a .csv or .json file of weights, [sending rack][receiving rack]. It is a text, or an
// object with the seed of a generated matrix.
func (r *scenarioReader) readMatrix(f tree.Field, s *serviceSpec) error {
	kind := tree.ReadParsed(&s.matrixKind, func(text string) (string, error) {
		if !slices.Contains(workload.MatrixKinds, text) {
			return "", fmt.Errorf("is %q, want %s, or a .csv or .json file", text,
				strings.Join(workload.MatrixKinds, ", "))
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
	ext := strings.ToLower(filepath.Ext(f.Value.Text))
	if ext == ".csv" || ext == ".json" {
		return file(f)
	}
	return kind(f)
}

// readSizes reads the flow sizes of a service: a shipped distribution, one size for all flows, or a file with
// a cumulative distribution. The name of a shipped distribution takes precedence over a file of the same
// name.
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

// readRacks reads the numbers of the racks to which a service is confined. Each number may occur once.
// Workload checks later whether the network has these racks, and uses racksAt in its message.
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
		s.Racks = append(s.Racks, rack)
		s.racksAt = append(s.racksAt, item)
		return nil
	})
	if err == nil && len(s.Racks) == 0 {
		return f.Failf("has no rack; leave the key out for all")
	}
	return err
}

func (s *serviceSpec) readPairs(f tree.Field) error {
	n := len(f.Value.Items)
	if f.Is(tree.List) && (n < 1 || n > maxPairs) {
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

// A jobSpec is a job before its ranks are placed on hosts.
type jobSpec struct {
	jobs.Job
	ranks     int    // 0: the number of hosts in the list, or of ranks of the training
	placement string // one of placements; else
	list      []tree.Field
	at        tree.Field
}

// placements choose hosts for ranks among the hosts without an earlier job. racks has all racks of the
// network.
var placements = map[string]func(free []int32, ranks int, racks [][]int32, draw rng.Stream) []int32{
	"contiguous": func(free []int32, ranks int, _ [][]int32, _ rng.Stream) []int32 {
		return slices.Clone(free[:ranks])
	},
	"strided": func(free []int32, ranks int, _ [][]int32, _ rng.Stream) (hosts []int32) {
		for i := range ranks {
			hosts = append(hosts, free[i*len(free)/ranks])
		}
		return hosts
	},
	"racks": func(free []int32, ranks int, racks [][]int32, _ rng.Stream) (hosts []int32) {
		racks = slices.Clone(racks)
		for i, rack := range racks {
			racks[i] = slices.DeleteFunc(slices.Clone(rack), func(h int32) bool { return !slices.Contains(free, h) })
		}
		// the hosts in the same place of every rack, then the next ones
		for place := 0; len(hosts) < ranks; place++ {
			for _, rack := range racks {
				if place < len(rack) {
					hosts = append(hosts, rack[place])
				}
			}
		}
		return hosts[:ranks]
	},
	"random": func(free []int32, ranks int, _ [][]int32, draw rng.Stream) []int32 {
		hosts := slices.Clone(free)
		for i := range ranks {
			j := i + draw.IntN(len(hosts)-i)
			hosts[i], hosts[j] = hosts[j], hosts[i]
		}
		return hosts[:ranks]
	},
}

// maxJobs is the maximum number of jobs of a scenario.
const maxJobs = 1000

func (r *scenarioReader) readJobs(f tree.Field) error {
	return f.Each(func(item tree.Field) error {
		if len(r.workload.jobs) == maxJobs {
			return item.Failf("is one of more than %d", maxJobs)
		}
		s := jobSpec{Job: jobs.Job{Iterations: 1}, placement: "contiguous", at: item}
		err := item.Object(tree.Keys{
			"name":       tree.ReadText(&s.Name),
			"ranks":      tree.ReadInt(&s.ranks, 1, jobs.MaxRanks),
			"hosts":      s.readHosts,
			"start":      tree.ReadQuantity(&s.StartNS, units.Duration, 0, maxDurationNS),
			"iterations": tree.ReadInt(&s.Iterations, 1, jobs.MaxIterations),
			"steps":      s.readSteps,
			"training":   s.readTraining,
		})
		if err != nil {
			return err
		}
		same := func(o jobSpec) bool { return o.Name == s.Name }
		if s.Name == "" || slices.ContainsFunc(r.workload.jobs, same) {
			return item.Failf("needs a name that no other job has")
		}
		r.workload.jobs = append(r.workload.jobs, s)
		return nil
	})
}

func (s *jobSpec) readHosts(f tree.Field) (err error) {
	if f.Is(tree.List) {
		s.list, err = f.List()
		return err
	}
	if err := tree.ReadText(&s.placement)(f); err != nil {
		return err
	}
	if placements[s.placement] == nil {
		return f.Failf("is %q, want contiguous, strided, racks, random or a list of hosts", s.placement)
	}
	return nil
}

// readSteps reads the steps that all ranks run, in order.
func (s *jobSpec) readSteps(f tree.Field) error {
	return f.Each(func(item tree.Field) error {
		var step jobs.Step
		var c jobs.Collective
		err := item.Object(tree.Keys{
			"compute":    tree.ReadQuantity(&step.ComputeNS, units.Duration, 1, maxDurationNS),
			"collective": tree.ReadText(&c.Kind),
			"algorithm":  tree.ReadText(&c.Algorithm),
			"size":       tree.ReadQuantity(&c.Bytes, units.Bytes, 1, 1<<50),
			"channels":   tree.ReadInt(&c.Channels, 1, jobs.MaxParts),
			"chunks":     tree.ReadInt(&c.Chunks, 1, jobs.MaxParts),
		})
		if err != nil {
			return err
		}
		if c != (jobs.Collective{}) {
			if c.Bytes == 0 {
				return item.Failf("has no size")
			}
			step.Collective = &c
		}
		s.Steps = append(s.Steps, step)
		return nil
	})
}

func (s *jobSpec) readTraining(f tree.Field) error {
	s.Training = &jobs.Training{Overlap: true}
	t := s.Training
	parts := func(to *int) func(tree.Field) error { return tree.ReadInt(to, 1, jobs.MaxRanks) }
	return f.Object(tree.Keys{
		"data":          parts(&t.Data),
		"tensor":        parts(&t.Tensor),
		"pipeline":      parts(&t.Pipeline),
		"expert":        parts(&t.Expert),
		"micro_batches": tree.ReadInt(&t.MicroBatches, 1, jobs.MaxMicroBatches),
		"local":         tree.ReadBounded(&t.LocalBps, topology.ParseSpeed, simkernel.MinBps, 1e15, "bps"),
		"gradients":     tree.ReadText(&t.Gradients),
		"overlap":       tree.ReadBool(&t.Overlap),
		"layers": func(f tree.Field) error {
			return f.Each(func(item tree.Field) error {
				l := jobs.Layer{Count: 1}
				bytes := func(to *int64) func(tree.Field) error { return tree.ReadQuantity(to, units.Bytes, 0, 1<<50) }
				time := func(to *int64) func(tree.Field) error {
					return tree.ReadQuantity(to, units.Duration, 0, maxDurationNS)
				}
				err := item.Object(tree.Keys{
					"count":      tree.ReadInt(&l.Count, 1, jobs.MaxLayers),
					"forward":    time(&l.ForwardNS),
					"backward":   time(&l.BackwardNS),
					"gradient":   bytes(&l.GradientBytes),
					"activation": bytes(&l.ActivationBytes),
					"tensor":     bytes(&l.TensorBytes),
					"expert":     bytes(&l.ExpertBytes),
				})
				t.Layers = append(t.Layers, l)
				return err
			})
		},
	})
}

// HasJobs reports whether the workload has jobs.
func (s *Scenario) HasJobs() bool { return len(s.workload.jobs) > 0 }

// Jobs returns the jobs that run, checked, with their ranks on hosts of the network. The hosts of a job do
// not depend on which jobs run.
func (s *Scenario) Jobs(n *topology.Network) (run []jobs.Job, err error) {
	free := slices.Clone(n.Hosts())
	for i, v := range s.workload.jobs {
		j := v.Job
		if j.Hosts, err = v.hosts(n, free, rng.New(s.Seed, rng.Placement, uint64(i))); err == nil {
			err = j.Check()
		}
		if err != nil {
			return nil, v.at.Fail(err)
		}
		free = slices.DeleteFunc(free, func(h int32) bool { return slices.Contains(j.Hosts, h) })
		j.ID = i
		if len(s.workload.only) == 0 || slices.Contains(s.workload.only, j.Name) {
			run = append(run, j)
		}
	}
	return run, nil
}

func (s *jobSpec) hosts(n *topology.Network, free []int32, draw rng.Stream) (hosts []int32, err error) {
	for _, item := range s.list {
		text, err := item.Scalar()
		if err != nil {
			return nil, err
		}
		found, err := n.HostList([]string{text})
		if err != nil {
			return nil, item.Fail(err)
		}
		for _, h := range found {
			if slices.Contains(hosts, h) {
				return nil, item.Failf("host %s has a rank already", n.Name(h))
			}
			hosts = append(hosts, h)
		}
	}
	ranks := s.ranks
	t := s.Training
	if ranks == 0 && t != nil {
		ranks = max(1, t.Data) * max(1, t.Tensor) * max(1, t.Pipeline)
	}
	switch {
	case s.list != nil && s.ranks != 0 && s.ranks != len(hosts):
		return nil, s.at.Failf("has %d ranks and a list of %d hosts", s.ranks, len(hosts))
	case s.list != nil:
		return hosts, nil
	case ranks == 0:
		return nil, s.at.Failf("has neither ranks nor a list of hosts")
	case ranks > len(free):
		return nil, s.at.Failf("has %d ranks, and %d hosts of the topology have no rank of an earlier job", ranks,
			len(free))
	}
	return placements[s.placement](free, ranks, n.Racks(), draw), nil
}
