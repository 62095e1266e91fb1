package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"loadline/internal/artifact"
)

// State is the folder of freeze records: what each run changed on an endpoint and how to put it back.
type State struct{ dir string }

// OpenState is the state folder at dir, made when it is not there.
func OpenState(dir string) (*State, error) {
	if err := makeDir(dir, 0o700); err != nil {
		return nil, err
	}
	return &State{dir}, nil
}

// HeldError is a variant that another run works on at this moment.
type HeldError struct {
	Endpoint, Variant string
	Owner             string // user@host pid, as the other run called itself
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("endpoint %s variant %s is held by another run (%s): wait until it ends, or stop it with Ctrl-C so that it restores", e.Endpoint, e.Variant, e.Owner)
}

// Hold is one variant held by this process: no other run on this machine can take it before Release or the end of the
// process, however it ends.
type Hold struct {
	state             *State
	endpoint, variant string
	lock              *os.File
}

// Lock takes a variant for this process, or fails at once with a *HeldError. owner says who has it. A record that a
// killed run left is found with Record.
func (s *State) Lock(endpoint, variant, owner string) (*Hold, error) {
	if err := errors.Join(safeID("endpoint", endpoint), safeID("variant", variant)); err != nil {
		return nil, err
	}
	path := s.path(endpoint, variant, ".lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, failed("lock", path, err)
	}
	// The lock file stays: removing it would let two processes lock two files of one name.
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			who := make([]byte, 200)
			n, _ := f.ReadAt(who, 0)
			return nil, &HeldError{Endpoint: endpoint, Variant: variant, Owner: strings.TrimSpace(string(who[:n]))}
		}
		return nil, failed("lock", path, err)
	}
	// Who holds it is told for people; the lock itself decides.
	if err := f.Truncate(0); err == nil {
		f.WriteAt([]byte(owner+"\n"), 0)
	}
	return &Hold{state: s, endpoint: endpoint, variant: variant, lock: f}, nil
}

// Record is the freeze record of the variant, nil when there is none. After Lock it is that of a run that did not
// restore.
func (h *Hold) Record() (*artifact.Freeze, error) {
	f, err := readFreeze(h.Path())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case f.Endpoint != h.endpoint || f.Variant != h.variant:
		return nil, fmt.Errorf("freeze record %s is that of endpoint %s variant %s: restore that one first (thaw)", h.Path(), f.Endpoint, f.Variant)
	}
	return f, nil
}

// Path is where the record lies.
func (h *Hold) Path() string { return h.state.path(h.endpoint, h.variant, ".json") }

// Write puts the record on the disk and syncs it: what it says may be changed once Write has returned. It refuses to
// write over the record of another run.
func (h *Hold) Write(f *artifact.Freeze) error {
	if f.Endpoint != h.endpoint || f.Variant != h.variant {
		return fmt.Errorf("freeze record of %s/%s under the lock of %s/%s", f.Endpoint, f.Variant, h.endpoint, h.variant)
	}
	old, err := h.Record()
	if err != nil {
		return err
	}
	if old != nil && old.RunID != f.RunID {
		return fmt.Errorf("the freeze record of run %s is still there (%s): restore with thaw first", old.RunID, h.Path())
	}
	data, err := artifact.Encode(f)
	if err != nil {
		return err
	}
	return replace(h.Path(), data, 0o600)
}

// Remove takes the record away, once what it says is restored and read back. No record is no error.
func (h *Hold) Remove() error {
	at("unfreeze")
	if err := os.Remove(h.Path()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return failed("remove the freeze record", h.Path(), err)
	}
	return syncDir(h.state.dir)
}

// Release lets other runs have the variant. The record, if any, stays.
func (h *Hold) Release() error {
	if h.lock == nil {
		return nil
	}
	err := h.lock.Close() // closing the only descriptor frees the lock
	h.lock = nil
	return err
}

// Records lists the freeze records in the folder, those of runs in progress included. A damaged one is an error beside
// the others.
func (s *State) Records() ([]*artifact.Freeze, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, failed("list the freeze records in", s.dir, err)
	}
	var records []*artifact.Freeze
	var errs []error
	for _, e := range entries {
		if name := e.Name(); strings.HasPrefix(name, "freeze-") && strings.HasSuffix(name, ".json") {
			f, err := readFreeze(filepath.Join(s.dir, name))
			switch {
			case errors.Is(err, fs.ErrNotExist):
			case err != nil:
				errs = append(errs, err)
			default:
				records = append(records, f)
			}
		}
	}
	return records, errors.Join(errs...)
}

func (s *State) path(endpoint, variant, ext string) string {
	f := artifact.Freeze{Endpoint: endpoint, Variant: variant}
	return filepath.Join(s.dir, strings.TrimSuffix(f.Name(), ".json")+ext)
}

func readFreeze(path string) (*artifact.Freeze, error) {
	data, err := ReadFile(path)
	if err != nil {
		return nil, err
	}
	f, err := artifact.ReadFreeze(data)
	if err != nil {
		return nil, fmt.Errorf("freeze record %s: %w: read it, put the endpoint back by hand (thaw --restore-capacity --desired N), then delete it", path, err)
	}
	return f, nil
}

// safeID takes what SageMaker takes as a name: 1 to 63 letters, digits and hyphens.
func safeID(what, name string) error {
	if name == "" || len(name) > 63 || strings.ContainsFunc(name, func(c rune) bool { return c != '-' && !alphanumeric(c) }) {
		return fmt.Errorf("%q is no name of a SageMaker %s: 1 to 63 letters, digits and hyphens", name, what)
	}
	return nil
}
