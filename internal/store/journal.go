package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"loadline/internal/artifact"
	"loadline/internal/sample"
)

// Journal is the files of one run: its artifact, saved whole after every rung, and the request log beside it. A kill at
// any instant loses at most the rung in progress. A Journal is used by one goroutine.
type Journal struct {
	dir, name, runID string
	log              *os.File // nil before the first rung
	size             int64    // of the log, whole members only
	rungs            int      // in the log
}

// Open begins the files of a new run in dir, which is made when it is not there, and makes sure that it can be written
// to. Nothing of an earlier run is touched before the first rung or save.
func Open(dir, name, runID string) (*Journal, error) {
	if err := safe(name); err != nil {
		return nil, err
	}
	if err := makeDir(dir, 0o777); err != nil {
		return nil, err
	}
	probe, err := os.CreateTemp(dir, ".probe-*")
	if err != nil {
		return nil, failed("write to", dir, err)
	}
	probe.Close()
	if err := os.Remove(probe.Name()); err != nil {
		return nil, failed("write to", dir, err)
	}
	return &Journal{dir: dir, name: name, runID: runID}, nil
}

// Resume goes on with the run whose partial artifact lies at path and lists rungs closed rungs. What the log holds
// beyond those (a rung that was being written when the run was killed) is cut off; their requests come back in log.
func Resume(path, runID string, rungs int) (j *Journal, log *Log, err error) {
	j = &Journal{dir: filepath.Dir(path), name: filepath.Base(path), runID: runID}
	if err := safe(j.name); err != nil {
		return nil, nil, err
	}
	at, err := FindLog(path, runID)
	if err != nil {
		if rungs == 0 {
			return j, &Log{RunID: runID}, nil
		}
		return nil, nil, fmt.Errorf("resume: %w", err)
	}
	log, err = ReadLog(at)
	if err != nil {
		return nil, nil, fmt.Errorf("resume: %w", err)
	}
	if len(log.Rungs) < rungs {
		return nil, nil, fmt.Errorf("resume: %s lists %d rungs, and %s holds %d: measure again from the start", path, rungs, at, len(log.Rungs))
	}
	log.Rungs = log.Rungs[:rungs]
	f, err := os.OpenFile(at, os.O_RDWR, 0)
	if err != nil {
		return nil, nil, failed("resume", at, err)
	}
	if err := lockLog(f); err != nil {
		f.Close()
		return nil, nil, fmt.Errorf("resume: run %s is still being measured by another process: wait until it ends: %w", runID, err)
	}
	j.log, j.rungs = f, rungs
	if rungs > 0 {
		j.size = log.ends[rungs-1]
	}
	if err := j.cut(); err != nil {
		f.Close()
		return nil, nil, failed("resume", at, err)
	}
	return j, log, nil
}

// Path is where the artifact is saved.
func (j *Journal) Path() string { return filepath.Join(j.dir, j.name) }

// LogName is the file name of the request log, for the artifact's request_log.
func (j *Journal) LogName() string { return artifact.RequestLogName(j.name) }

// Rung appends the requests of one closed rung to the log and syncs it. A failed append leaves the log as it was.
func (j *Journal) Rung(requests []sample.Request) error {
	if j.log == nil {
		if err := j.begin(); err != nil {
			return err
		}
	}
	member, err := encodeMember(j.runID, j.rungs, requests)
	if err != nil {
		return fmt.Errorf("log the requests of rung %d: %w", j.rungs, err)
	}
	at("log")
	_, err = j.log.WriteAt(member, j.size)
	if err == nil {
		at("logsync")
		err = j.log.Sync()
	}
	if err != nil {
		j.cut() // the error that is told is the first
		return failed("log the requests of a rung in", j.log.Name(), err)
	}
	j.size += int64(len(member))
	j.rungs++
	return nil
}

// begin takes the log's name, keeping the log of an earlier run.
func (j *Journal) begin() error {
	path := filepath.Join(j.dir, j.LogName())
	if _, err := os.Lstat(path); err == nil {
		if _, err := keep(path, logExt, logRun(path)); err != nil {
			return err
		}
		if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
			return failed("log requests in", path, err)
		}
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return failed("log requests in", path, err)
	}
	if err := errors.Join(lockLog(f), syncDir(j.dir)); err != nil {
		f.Close()
		return failed("log requests in", path, err)
	}
	j.log = f
	return nil
}

// lockLog keeps a second process from resuming a run that goes on. The lock ends with the file or the process.
func lockLog(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// cut takes off the log what follows its last whole member.
func (j *Journal) cut() error {
	if err := j.log.Truncate(j.size); err != nil {
		return err
	}
	return j.log.Sync()
}

// Save saves the artifact in place of this run's earlier one. kept names the file of another run that had the name.
func (j *Journal) Save(data []byte) (kept string, err error) { return Save(j.dir, j.name, data) }

// Close closes the log; what was logged is on the disk already.
func (j *Journal) Close() error {
	if j.log == nil {
		return nil
	}
	err := j.log.Close()
	j.log = nil
	return err
}
