package bundle

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"parsimon/pipeline"
	"parsimon/schema"
)

const manifestName = "bundle.json"

// Limits of archives. A bundle that was changed on purpose must not fill the memory or the disk.
const (
	window           = 4 << 20   // of zstd, in bytes
	maxManifestBytes = 256 << 20 // the spec of a network with routes has several MB
	// Parquet files are compressed already. An archive may still unpack to maxRatio times its bytes, and to
	// unpackedBytes more.
	maxRatio      = 256
	unpackedBytes = 64 << 20
)

// magic is the start of every zstd file.
var magic = []byte{0x28, 0xB5, 0x2F, 0xFD}

// Is reports whether a path is a regular file that is compressed like a bundle. No scenario file begins like
// that, because these bytes are not UTF-8.
func Is(path string) bool {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // it was only read
	begin := make([]byte, len(magic))
	_, err = io.ReadFull(f, begin)
	return err == nil && bytes.Equal(begin, magic)
}

// tableDir returns the directory in the archive of the files of a table.
func tableDir(t schema.Table) string { return "inputs/" + t.Name }

// fileName returns the name in the archive of a data file of a table, counted from 0.
func fileName(t schema.Table, n int) string {
	return fmt.Sprintf("%s/part-%05d.parquet", tableDir(t), n)
}

// header returns the header of a file. It does not depend on when and by whom the file is written.
func header(name string, size int64) *tar.Header {
	return &tar.Header{
		Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644, ModTime: time.Unix(0, 0),
		Format: tar.FormatUSTAR,
	}
}

// A content is a file to be archived.
type content struct {
	File
	open func() (io.ReadCloser, error)
}

// writeArchive writes the manifest and then the files that it lists.
func writeArchive(ctx context.Context, out io.Writer, m *Manifest, files []content) error {
	text, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return err
	}
	if len(text) > maxManifestBytes {
		return fmt.Errorf("the description of the scenario has %d bytes, at most %d are possible", len(text),
			maxManifestBytes)
	}
	// One goroutine: the bytes of the archive must not depend on the machine.
	compressed, err := zstd.NewWriter(out, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(window))
	if err != nil {
		return err
	}
	archive := tar.NewWriter(compressed)
	err = archive.WriteHeader(header(manifestName, int64(len(text))))
	if err == nil {
		_, err = archive.Write(text)
	}
	for _, f := range files {
		if err == nil {
			err = errors.Join(ctx.Err(), f.writeTo(archive))
		}
	}
	if err == nil {
		err = archive.Close()
	}
	return errors.Join(err, compressed.Close())
}

// writeTo archives one file. Its bytes must still be those that were listed.
func (c content) writeTo(archive *tar.Writer) error {
	in, err := c.open()
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was only read
	if err := archive.WriteHeader(header(c.Name, c.Bytes)); err != nil {
		return fmt.Errorf("%s: %w", c.Name, err)
	}
	hash := sha256.New()
	n, err := io.Copy(archive, io.TeeReader(in, hash))
	if err == nil && (n != c.Bytes || hex.EncodeToString(hash.Sum(nil)) != c.SHA256) {
		err = errors.New("it was changed meanwhile")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", c.Name, err)
	}
	return nil
}

// Open unpacks a bundle into an empty directory, and verifies all of it. Errors name the file in the bundle.
func Open(ctx context.Context, path, dir string) (*Bundle, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	m, err := unpack(ctx, f, info.Size(), dir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &Bundle{Manifest: *m, path: path, dir: dir}, nil
}

// unpack unpacks an archive of the given size.
func unpack(ctx context.Context, in io.Reader, archived int64, dir string) (*Manifest, error) {
	plain, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(window))
	if err != nil {
		return nil, err
	}
	defer plain.Close()
	archive := tar.NewReader(plain)
	most := unpackedBytes + maxRatio*archived
	m, err := readManifest(archive, most)
	if err != nil {
		return nil, err
	}
	if err := checkFiles(m.Files, most); err != nil {
		return nil, fmt.Errorf("%s: %w", manifestName, err)
	}
	for _, f := range m.Files {
		err := ctx.Err()
		if err == nil {
			err = f.unpack(archive, dir)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, cut(err))
		}
	}
	switch more, err := archive.Next(); {
	case err == nil:
		return nil, fmt.Errorf("%q: %s does not list this file", more.Name, manifestName)
	case !errors.Is(err, io.EOF):
		return nil, fmt.Errorf("after the last file: %w", cut(err))
	}
	// The checksum of the compressed bytes comes at their end.
	switch _, err := io.CopyN(io.Discard, plain, 1); {
	case err == nil:
		return nil, errors.New("after the last file: there are other bytes")
	case !errors.Is(err, io.EOF):
		return nil, fmt.Errorf("after the last file: %w", cut(err))
	}
	return m, nil
}

// cut explains the errors of an archive that ends too early.
func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the archive ends here, so it was cut")
	}
	return err
}

// An otherNameError says that an archive has another file where one is expected.
type otherNameError struct{ name string }

// Error names the other file.
func (e *otherNameError) Error() string {
	return fmt.Sprintf("the archive has %q in its place", e.name)
}

// next goes on to the next file of the archive, which must be a plain file of the given name.
func next(archive *tar.Reader, name string) (size int64, err error) {
	h, err := archive.Next()
	switch {
	case err != nil:
		return 0, cut(err)
	case h.Name != name:
		return 0, &otherNameError{h.Name}
	case h.Typeflag != tar.TypeReg || h.Linkname != "" || h.Format != tar.FormatUSTAR:
		return 0, errors.New("it is not a plain file")
	}
	return h.Size, nil
}

// readManifest reads the first file of the archive.
func readManifest(archive *tar.Reader, most int64) (*Manifest, error) {
	fail := func(err error) (*Manifest, error) { return nil, fmt.Errorf("%s: %w", manifestName, cut(err)) }
	size, err := next(archive, manifestName)
	if errors.Is(err, tar.ErrHeader) || errors.As(err, new(*otherNameError)) {
		err = fmt.Errorf("this is no bundle of parsimon export: %w", err)
	}
	if err != nil {
		return fail(err)
	}
	if size > min(most, maxManifestBytes) {
		return fail(fmt.Errorf("it has %d bytes, more than a bundle can have", size))
	}
	text, err := io.ReadAll(archive)
	if err != nil {
		return fail(err)
	}
	var m Manifest
	var format struct {
		Version int `json:"parsimon_bundle"`
	}
	if err := json.Unmarshal(text, &format); err != nil {
		return fail(err)
	}
	if format.Version != formatVersion {
		return fail(fmt.Errorf("the bundle has format %d, and this program reads format %d: use the program that "+
			"made it", format.Version, formatVersion))
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return fail(err)
	}
	return &m, nil
}

// checkFiles returns an error unless the files have the names of data files of the input tables, in order,
// and at most the given number of bytes.
func checkFiles(files []File, most int64) error {
	rest := files
	for _, t := range pipeline.InputTables {
		for n := 0; len(rest) > 0 && rest[0].Name == fileName(t, n); n++ {
			f := rest[0]
			if f.Bytes < 0 || f.Bytes > most {
				return fmt.Errorf("%s has %d bytes: an archive of this size can have %d more", f.Name, f.Bytes, most)
			}
			most -= f.Bytes
			rest = rest[1:]
		}
	}
	if len(rest) > 0 {
		return fmt.Errorf("it lists %q, which is not the next file of a bundle", rest[0].Name)
	}
	return nil
}

// unpack writes the next file of the archive below a directory, and verifies its size and its bytes.
func (f File) unpack(archive *tar.Reader, dir string) error {
	size, err := next(archive, f.Name)
	if err != nil {
		return err
	}
	if size != f.Bytes {
		return fmt.Errorf("it has %d bytes, and %s states %d", size, manifestName, f.Bytes)
	}
	path := filepath.Join(dir, filepath.FromSlash(f.Name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	hash := sha256.New()
	_, err = io.Copy(out, io.TeeReader(archive, hash))
	if err := errors.Join(err, out.Close()); err != nil {
		return err
	}
	if hex.EncodeToString(hash.Sum(nil)) != strings.ToLower(f.SHA256) {
		return fmt.Errorf("its bytes are not those that %s states: the bundle was changed", manifestName)
	}
	return nil
}
