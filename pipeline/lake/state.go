package lake

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/zeebo/xxh3"
)

// A sealed is the content of a state file: a value and a digest that reveals damage.
type sealed struct {
	Digest string          `json:"xxh3"` // of State, white space removed
	State  json.RawMessage `json:"state"`
}

// maxStateBytes bounds what is read of a state file.
const maxStateBytes = 256 << 20

// ReadState reads the state file at a lake-relative path into v. found is false where there is none. The
// error of a damaged file names it.
func (l *Lake) ReadState(path string, v any) (found bool, err error) {
	f, err := l.openRegular(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }() // only read
	data, err := io.ReadAll(io.LimitReader(f, maxStateBytes))
	if err != nil {
		return false, err
	}
	fail := func(why any) (bool, error) {
		return false, &DamageError{filepath.Join(l.path, path), fmt.Sprintf("damaged state file: %v", why)}
	}
	var s sealed
	if err := json.Unmarshal(data, &s); err != nil {
		return fail(err)
	}
	if digest, err := sealOf(s.State); err != nil || digest != s.Digest {
		return fail("its digest does not match")
	}
	if err := json.Unmarshal(s.State, v); err != nil {
		return fail(err)
	}
	return true, nil
}

// StateFiles are the names of the files in a lake-relative directory of state files; none where there is no directory.
func (l *Lake) StateFiles(path string) (map[string]bool, error) {
	entries, err := l.readDir(path)
	names := make(map[string]bool, len(entries))
	for _, e := range entries {
		names[e.Name()] = true
	}
	return names, err
}

// sealOf is the digest of a state, white space removed.
func sealOf(state []byte) (string, error) {
	var b bytes.Buffer
	if err := json.Compact(&b, state); err != nil {
		return "", err
	}
	return fmt.Sprintf("%016x", xxh3.Hash(b.Bytes())), nil
}

// WriteState replaces the state file at a lake-relative path, whole or not at all. A power failure may undo it.
func (s *Session) WriteState(path string, v any) error { return s.writeState(path, v, false) }

// WriteStateDurably is WriteState that a power failure does not undo.
func (s *Session) WriteStateDurably(path string, v any) error { return s.writeState(path, v, true) }

func (s *Session) writeState(path string, v any, durably bool) error {
	state, err := json.Marshal(v)
	if err != nil {
		return err
	}
	digest, err := sealOf(state)
	if err != nil {
		return err
	}
	data, err := json.MarshalIndent(sealed{digest, state}, "", " ")
	if err != nil {
		return err
	}
	f, tmp, err := s.createTemp("state", "json")
	if err != nil {
		return err
	}
	_, err = f.Write(append(data, '\n'))
	if err == nil && durably {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return errors.Join(fmt.Errorf("writing %s: %w", path, err), s.root.Remove(tmp))
	}
	if err := s.install(tmp, path); err != nil || !durably {
		return err
	}
	for dir := filepath.Dir(path); dir != "."; dir = filepath.Dir(dir) {
		if err := s.root.Sync(dir); err != nil {
			return err
		}
	}
	return nil
}

// RemoveState removes a state file or a directory of them. One that is not there is no error.
func (s *Session) RemoveState(path string) error { return s.root.RemoveAll(path) }

// answerFile, in the state of a scenario, names its answer.
const answerFile = "answer.json"

// Answer is the variant that the last run of a scenario ended with; empty if none has, or if that is not known: readers
// take the best that there is.
func (l *Lake) Answer(id ScenarioID) string {
	variant, _ := l.ReadAnswer(id)
	return variant
}

// ReadAnswer is Answer with what is wrong with the file.
func (l *Lake) ReadAnswer(id ScenarioID) (variant string, err error) {
	if found, err := l.ReadState(Of(id).StatePath(answerFile), &variant); err != nil || !found {
		return "", err
	}
	return variant, nil
}

// SetAnswer makes a variant the answer of a scenario.
func (s *Session) SetAnswer(id ScenarioID, variant string) error {
	if s.Answer(id) == variant {
		return nil
	}
	return s.WriteStateDurably(Of(id).StatePath(answerFile), variant)
}
