package workload

// Workload describes flows to generate, as the paper does (§4.1): services, each with a rack matrix, a size
// distribution and log-normal inter-arrival times, and a total rate that brings the most loaded link to MaxLoad.
// Whoever reads a description checks what is said here of its values (package scenario).
type Workload struct {
	Services []Service
	// MaxLoad is the expected load of the most loaded link: payload bits per second relative to its bandwidth;
	// above 0.
	MaxLoad float64
	// DurationNS ends the workload before that time, Flows after that many flows. One of them is set.
	DurationNS int64
	Flows      int64
}

// Service is one network-wide arrival process of flows.
type Service struct {
	Name string // label of its flows; names of services differ
	VNet string // virtual network of its flows; may be empty
	DSCP int16  // of its packets
	// Matrix has a row and a column for each rack of Network.Racks, or of Racks if set. Nil means equal weights
	// from each rack to every other.
	Matrix *Matrix
	Sizes  *SizeCDF
	Sigma  float64 // shape of the log-normal inter-arrival times, 0 (constant) to 8
	Share  float64 // of all bytes, relative to the other services; above 0
	Racks  []int   // places in Network.Racks to which the service is confined; nil for all
	// Hosts to which the service is confined, ascending; nil for all. Racks without any of them are left out, and
	// Matrix has a row and a column for each of the others.
	Hosts []int32
	// Pairs, instead of Matrix and Racks, are the senders and receivers of the service, all of equal weight. Nil
	// for racks.
	Pairs [][2]int32
	// Poisson makes inter-arrival times exponential instead of log-normal. Sigma is then 0.
	Poisson bool
	// TwinOf names another service whose random numbers this one draws too. With the same sizes, inter-arrivals
	// and share it has the same flows at the same times, between its own hosts. Empty for numbers of its own.
	TwinOf string
}
