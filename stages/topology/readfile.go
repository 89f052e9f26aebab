package topology

import (
	"fmt"
	"io"
	"io/fs"
	"os"
)

// maxFileBytes bounds the files that are read whole: topologies, scenarios, sizes and matrices.
const maxFileBytes = 512 << 20

// ReadFile reads a file of at most 512 MiB that is no device: such as /dev/zero never ends.
func ReadFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Mode()&fs.ModeDevice != 0 {
		return nil, fmt.Errorf("%s: a device, want a file", path)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err == nil && len(data) > maxFileBytes {
		err = fmt.Errorf("%s: more than %d MiB", path, maxFileBytes>>20)
	}
	return data, err
}
