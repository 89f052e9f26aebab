package stages

import "testing"

func TestBackendOfEstimator(t *testing.T) {
	if err := CheckLinkBackend(NS3Backend, Flow); err == nil || CheckLinkBackend(NS3Backend, Independent) != nil || CheckLinkBackend(Kernel, Flow) != nil {
		t.Errorf("estimator flow: %v", err)
	}
}
