package stages

// A SizeBin is a range of flow sizes that answers are given by.
type SizeBin struct {
	Name                       string
	SizeMinBytes, SizeMaxBytes int64 // both belong to it
}

// SizeBins are the bins of the questions (view size_bins says where their borders come from): every
// flow belongs to one of them, and to AllSizes.
func SizeBins() []SizeBin {
	return []SizeBin{{"<10 KB", 0, 9_999}, {"10-100 KB", 10_000, 99_999}, {"100 KB-1 MB", 100_000, 1_000_000}, {">1 MB", 1_000_001, 1<<63 - 1}}
}

// AllSizes is the name of the bin that holds every flow.
const AllSizes = "all"
