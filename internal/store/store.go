// Package store keeps records on the disk so that nothing is lost or half-written: artifacts and their request logs in
// one folder, freeze records in another. It knows the file system; what a record holds is decided in package artifact,
// where the folders are in cmd.
//
//	j, err := store.Open("artifacts", "qmax-kokoro-82m-response-stream-g5xlarge-8b1b96bc.json", runID)
//	err = j.Rung(requests) // appended to the request log and synced
//	err = j.Save(data)     // the artifact, whole, in place of the one before
//
// A file is written beside its place under a hidden name, synced, and renamed over it: after a kill at any instant there
// is the old file or the new one. The file of another run is never written over; it stays as …-<run_id>.json.
package store

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/oklog/ulid/v2"

	"loadline/internal/artifact"
)

// maxRead bounds what ReadFile takes in: far more than any record, less than a device that never ends.
const maxRead = 256 << 20

// at is called before each step that a crash could fall between; tests kill the process there.
var at = func(step string) {}

// NewRunID is a fresh run id (a ULID) of a run that starts now.
func NewRunID(now time.Time) string {
	return ulid.MustNew(ulid.Timestamp(now), rand.Reader).String()
}

// ReadFile reads a record that the user named.
func ReadFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, failed("read", path, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxRead+1))
	switch {
	case err != nil:
		return nil, failed("read", path, err)
	case len(data) > maxRead:
		return nil, fmt.Errorf("read %s: it is larger than %d MiB: no record is", path, maxRead>>20)
	}
	return data, nil
}

// WriteFile puts data in the place of the file at path, whole or not at all, and keeps its permissions. A symbolic link
// is followed. It writes over what is there: for files that the user owns, like models.yaml.
func WriteFile(path string, data []byte) error {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	perm := fs.FileMode(0o666)
	if info, err := os.Stat(path); err == nil {
		perm = info.Mode().Perm()
	}
	return replace(path, data, perm)
}

// Save writes an artifact into dir, which is made when it is not there. The run that data belongs to may save again and
// again under its name; the file of another run is kept under …-<run_id>.json (or a number, where it names no run), and
// kept is that file's name.
func Save(dir, name string, data []byte) (kept string, err error) {
	if err := safe(name); err != nil {
		return "", err
	}
	if err := makeDir(dir, 0o777); err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return "", failed("save", path, err)
	case info.IsDir():
		return "", fmt.Errorf("save %s: a folder is in its place: move it away", path)
	default:
		id := runAt(path)
		if id == "" || id != artifact.RunID(data) {
			at("keep")
			if kept, err = keep(path, ".json", id); err != nil {
				return "", err
			}
		}
	}
	return kept, replace(path, data, 0o666)
}

// runAt is the run id of the artifact at path, "" when it cannot be told.
func runAt(path string) string {
	data, err := ReadFile(path)
	if err != nil {
		return ""
	}
	return artifact.RunID(data)
}

// keep gives the file at path a second name, after its run, and returns it. The file stays reachable under path until
// its successor is renamed over it. ext is what the run id goes before.
func keep(path, ext, id string) (string, error) {
	stem := strings.TrimSuffix(path, ext)
	for n := 1; ; n++ {
		var kept string
		switch {
		case id == "":
			kept = fmt.Sprintf("%s-kept-%d%s", stem, n, ext)
		case n == 1:
			kept = stem + "-" + id + ext
		default:
			kept = fmt.Sprintf("%s-%s-%d%s", stem, id, n, ext)
		}
		err := os.Link(path, kept)
		switch {
		case err == nil:
			return filepath.Base(kept), nil
		case errors.Is(err, fs.ErrExist):
			if same(path, kept) {
				return filepath.Base(kept), nil
			}
			continue // another file has the name: look for a free one
		case errors.Is(err, fs.ErrPermission), errors.Is(err, errors.ErrUnsupported), errors.Is(err, syscall.EMLINK):
			// A file system without hard links: the name is free for an instant, the file never lost.
			if _, err := os.Lstat(kept); err == nil {
				continue
			}
			if err := os.Rename(path, kept); err != nil {
				return "", failed("keep the file of an earlier run", path, err)
			}
			return filepath.Base(kept), nil
		}
		return "", failed("keep the file of an earlier run", path, err)
	}
}

// same says whether two files hold the same bytes, as after a crash between keeping a file and replacing it.
func same(a, b string) bool {
	da, errA := ReadFile(a)
	db, errB := ReadFile(b)
	return errA == nil && errB == nil && bytes.Equal(da, db)
}

// replace writes data beside path, syncs it and renames it over path.
func replace(path string, data []byte, perm fs.FileMode) error {
	var suffix [6]byte
	rand.Read(suffix[:]) // never fails: it aborts the program instead
	tmp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+hex.EncodeToString(suffix[:])+".tmp")
	at("create")
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return failed("save", path, err)
	}
	at("write")
	_, err = f.Write(data)
	if err == nil {
		at("sync")
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		at("rename")
		err = os.Rename(tmp, path)
	}
	if err != nil {
		os.Remove(tmp)
		return failed("save", path, err)
	}
	at("syncdir")
	return syncDir(filepath.Dir(path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return failed("sync", dir, err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, errors.ErrUnsupported) {
		return failed("sync", dir, err)
	}
	return nil
}

func makeDir(dir string, perm fs.FileMode) error {
	if err := os.MkdirAll(dir, perm); err != nil {
		return failed("make the folder", dir, err)
	}
	return nil
}

// safe refuses a name that is more than a name: nothing is written outside the folder, or hidden in it.
func safe(name string) error {
	if name == "" || len(name) > 220 || strings.HasPrefix(name, ".") || strings.ContainsAny(name, "/\\\x00") || !strings.HasSuffix(name, ".json") {
		return fmt.Errorf("%q is no name for an artifact: a plain file name that ends in .json was wanted", name)
	}
	return nil
}

// failed says what could not be done to which file, why, and what to do about it.
func failed(step, path string, err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		err = pe.Err
	} else if le, ok := errors.AsType[*os.LinkError](err); ok {
		err = le.Err
	}
	hint := ""
	switch {
	case errors.Is(err, syscall.EROFS):
		hint = ": choose a folder that can be written to"
	case errors.Is(err, fs.ErrPermission):
		hint = ": allow it, or choose another folder"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG):
		hint = ": make room and run again; what was there is untouched"
	case errors.Is(err, syscall.ENOTDIR):
		hint = ": a part of the path is a file"
	case errors.Is(err, syscall.EISDIR):
		hint = ": name a file in it"
	}
	return fmt.Errorf("%s %s: %w%s", step, path, err, hint)
}
