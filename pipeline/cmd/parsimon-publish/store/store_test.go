package store

import (
	"maps"
	"testing"

	iceio "github.com/apache/iceberg-go/io"
)

// The clouds' tools read these variables. If the publisher ignored them, it would send requests to another
// service than ingest does, or without the key.
func TestEnvironmentOfClouds(t *testing.T) {
	const connection = "DefaultEndpointsProtocol=https;AccountName=company;AccountKey=c2VjcmV0"
	for name, c := range map[string]struct{ env, want map[string]string }{
		"the key of another Azure account": {
			map[string]string{"AZURE_STORAGE_ACCOUNT": "other", "AZURE_STORAGE_KEY": "c2VjcmV0"}, nil,
		},
		"nothing is set": {nil, nil},
		"the address of S3 alone counts most": {
			map[string]string{"AWS_ENDPOINT_URL": "http://all", "AWS_ENDPOINT_URL_S3": "http://s3"},
			map[string]string{iceio.S3EndpointURL: "http://s3"},
		},
		"an Azure account without a key": {map[string]string{"AZURE_STORAGE_ACCOUNT": "company"}, nil},
		"an Azure account with a key": {
			map[string]string{"AZURE_STORAGE_ACCOUNT": "company", "AZURE_STORAGE_KEY": "c2VjcmV0",
				"AZURE_STORAGE_DOMAIN": "blob.example.com"},
			map[string]string{iceio.ADLSSharedKeyAccountName: "company", iceio.ADLSSharedKeyAccountKey: "c2VjcmV0",
				iceio.ADLSEndpoint: "blob.example.com"},
		},
		"the connection string of an Azure account": {
			map[string]string{"AZURE_STORAGE_CONNECTION_STRING": connection},
			map[string]string{iceio.ADLSConnectionStringPrefix + "company": connection},
		},
	} {
		got := properties(func(variable string) string { return c.env[variable] }, "company.dfs.core.windows.net")
		if !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
