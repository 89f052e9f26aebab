package stages

import "testing"

// ns-3 yields FCTs only, so it serves estimator Independent alone.
func TestBackendOfEstimator(t *testing.T) {
	if err := CheckBackend(NS3Backend, Flow); err == nil || CheckBackend(NS3Backend, Independent) != nil ||
		CheckBackend(Kernel, Flow) != nil {
		t.Errorf("estimator flow: %v", err)
	}
}
