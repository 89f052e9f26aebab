// Package servertest runs servers that others wrote on this machine, for tests.
//
//	Rest      a catalog of Iceberg tables: the REST catalog of Iceberg's own tests, over SQLite
//	Postgres  PostgreSQL, for the SQL catalog of Iceberg tables
//	Glue      moto, a mock of AWS Glue
//	GCS       fake-gcs-server, an emulator of Google Cloud Storage
package servertest

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Programs names the environment variable with the directory in which .ci/setup-catalogs has installed the
// servers. Tests are skipped if it is not set.
const Programs = "PARSIMON_CATALOG_SERVERS"

// GCSProgram names the environment variable with the path of fake-gcs-server. Tests are skipped if it is not
// set.
const GCSProgram = "PARSIMON_GCS_SERVER"

// programs returns the directory of the servers.
func programs(t testing.TB) string {
	t.Helper()
	dir := os.Getenv(Programs)
	if dir == "" {
		t.Skipf("%s is not set: make publish-readers sets it", Programs)
	}
	return dir
}

// Rest starts a server of the REST protocol whose tables are in a bucket of s3test.Start, and returns its
// URL. Tables without a location are below warehouse.
func Rest(t testing.TB, warehouse string) string {
	t.Helper()
	jars := filepath.Join(programs(t), "jars", "*")
	address := FreeAddress(t)
	_, port, _ := strings.Cut(address, ":")
	c := exec.Command("java", "-Xmx256m", "-cp", jars, "org.apache.iceberg.rest.RESTCatalogServer")
	c.Env = append(os.Environ(), // CATALOG_X_Y__Z is the property x.y-z
		"CATALOG_REST_PORT="+port,
		"CATALOG_URI=jdbc:sqlite:file:"+filepath.Join(t.TempDir(), "catalog.db"),
		"CATALOG_CLIENTS=1",
		"CATALOG_WAREHOUSE="+warehouse,
		"CATALOG_IO__IMPL=org.apache.iceberg.aws.s3.S3FileIO",
		"CATALOG_S3_ENDPOINT="+os.Getenv("AWS_ENDPOINT_URL"),
		"CATALOG_S3_PATH__STYLE__ACCESS=true",
		"CATALOG_S3_CLIENT__FACTORY__IMPL=org.apache.iceberg.aws.s3.DefaultS3FileIOAwsClientFactory")
	Start(t, c, address)
	return "http://" + address
}

// Postgres starts a PostgreSQL server and returns the URL of an empty database.
func Postgres(t testing.TB) string {
	t.Helper()
	installed := filepath.Join(programs(t), "postgres")
	home, err := os.MkdirTemp("", "parsimon-postgres-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	as := &syscall.SysProcAttr{}
	if os.Getuid() == 0 { // PostgreSQL refuses to run as root
		as.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
		copied := filepath.Join(home, "postgres")
		err := errors.Join(os.CopyFS(copied, os.DirFS(installed)), os.Chmod(home, 0o755),
			os.Chown(home, nobody, nobody))
		if err != nil {
			t.Fatal(err)
		}
		installed = copied
	}
	data := filepath.Join(home, "data")
	made := exec.Command(filepath.Join(installed, "bin", "initdb"), "--pgdata", data, "--username", "parsimon",
		"--auth", "trust", "--no-sync")
	made.SysProcAttr = as
	made.Dir = home
	if out, err := made.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v: %s", err, out)
	}
	address := FreeAddress(t)
	host, port, _ := strings.Cut(address, ":")
	c := exec.Command(filepath.Join(installed, "bin", "postgres"), "-D", data, "-h", host, "-p", port,
		"-k", home, "-c", "fsync=off")
	c.SysProcAttr = as
	c.Dir = home
	Start(t, c, address)
	return fmt.Sprintf("postgres://parsimon@%s/postgres?sslmode=disable", address)
}

// nobody is the user without rights of Linux.
const nobody = 65534

// Glue starts a mock of AWS Glue, sets the environment variable with which AWS clients find it, and returns
// the name of the catalog.
func Glue(t testing.TB) string {
	t.Helper()
	address := FreeAddress(t)
	host, port, _ := strings.Cut(address, ":")
	program := filepath.Join(programs(t), "moto", "bin", "moto_server")
	Start(t, exec.Command(program, "-H", host, "-p", port), address)
	t.Setenv("AWS_ENDPOINT_URL_GLUE", "http://"+address)
	return "glue"
}

// GCS starts a server with one bucket, and sets the environment variable with which Google's clients find it.
func GCS(t testing.TB, bucket string) {
	t.Helper()
	program := os.Getenv(GCSProgram)
	if program == "" {
		t.Skipf("%s is not set: make gcs-test sets it", GCSProgram)
	}
	address := FreeAddress(t)
	host, port, _ := strings.Cut(address, ":")
	Start(t, exec.Command(program, "-scheme", "http", "-host", host, "-port", port, "-public-host", address,
		"-backend", "memory"), address)
	made, err := http.Post("http://"+address+"/storage/v1/b", "application/json",
		strings.NewReader(`{"name": "`+bucket+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	_ = made.Body.Close()
	if made.StatusCode != http.StatusOK {
		t.Fatalf("bucket %s: %s", bucket, made.Status)
	}
	t.Setenv("STORAGE_EMULATOR_HOST", address)
}

// Start starts a server, and waits until it accepts connections. The test ends it.
func Start(t testing.TB, c *exec.Cmd, address string) {
	t.Helper()
	log := filepath.Join(t.TempDir(), "server.log")
	out, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }() // the server has its own
	c.Stdout = out
	c.Stderr = out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait() // it was killed
	})
	for range 600 {
		connection, err := net.Dial("tcp", address)
		if err == nil {
			_ = connection.Close()
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	said, err := os.ReadFile(log)
	t.Fatalf("no server at %s: %s %v", address, said, err)
}

// FreeAddress returns an address at which nothing listens.
func FreeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }() // nothing was sent
	return l.Addr().String()
}
