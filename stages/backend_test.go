package stages

import "testing"

func TestBackendOfEstimator(t *testing.T) {
	if err := CheckBackend(NS3Backend, Flow); err == nil || CheckBackend(NS3Backend, Independent) != nil || CheckBackend(Kernel, Flow) != nil {
		t.Errorf("estimator flow: %v", err)
	}
}
