package store

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"loadline/internal/artifact"
	"loadline/internal/sample"
)

// logExt is how a request log is called.
const logExt = ".requests.jsonl.gz"

// Log is a request log as it was read: a gzip member a rung, a JSON object a request, so that zcat reads it too.
type Log struct {
	RunID string
	Rungs [][]sample.Request // whole rungs only, in the order in which they were measured

	// Dropped is the bytes after the last whole rung: of the one that was being written when the run was killed. Why says
	// what was wrong with them; "" when there are none.
	Dropped int64
	Why     string

	ends []int64 // offset after each rung
}

// ReadLog reads a request log as far as it is whole.
func ReadLog(path string) (*Log, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, failed("read the request log", path, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, failed("read the request log", path, err)
	}
	log, in := &Log{}, &counting{r: bufio.NewReader(f)}
	if magic, _ := in.r.Peek(2); len(magic) == 2 && (magic[0] != 0x1f || magic[1] != 0x8b) {
		return nil, fmt.Errorf("read the request log %s: it is not a compressed file", path)
	}
	for {
		id, requests, err := readMember(in)
		switch {
		case err == io.EOF:
			return log, nil
		case err != nil:
			log.Why = err.Error()
		case len(log.Rungs) > 0 && id != log.RunID:
			log.Why = fmt.Sprintf("a rung of another run (%s) follows", id)
		default:
			log.RunID = id
			log.Rungs = append(log.Rungs, requests)
			log.ends = append(log.ends, in.n)
			continue
		}
		whole := int64(0)
		if len(log.ends) > 0 {
			whole = log.ends[len(log.ends)-1]
		}
		log.Dropped = info.Size() - whole
		return log, nil
	}
}

// readMember reads one rung; io.EOF when nothing follows.
func readMember(in *counting) (runID string, requests []sample.Request, err error) {
	if _, err := in.r.Peek(1); err == io.EOF {
		return "", nil, io.EOF
	}
	z, err := gzip.NewReader(in)
	if err != nil {
		return "", nil, cutOff(err)
	}
	z.Multistream(false)
	runID, _, _ = strings.Cut(strings.TrimPrefix(z.Comment, "run "), " ")
	for dec := json.NewDecoder(z); ; {
		var r sample.Request
		switch err := dec.Decode(&r); {
		case err == io.EOF:
			return runID, requests, nil
		case err != nil:
			return "", nil, cutOff(err)
		}
		requests = append(requests, r)
	}
}

func cutOff(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || err == io.EOF {
		return errors.New("the log ends in the middle of a rung")
	}
	return err
}

// counting counts the bytes that were taken. It reads byte-wise when asked to, so that gzip takes no byte beyond its
// member.
type counting struct {
	r *bufio.Reader
	n int64
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

func (c *counting) ReadByte() (byte, error) {
	b, err := c.r.ReadByte()
	if err == nil {
		c.n++
	}
	return b, err
}

func encodeMember(runID string, rung int, requests []sample.Request) ([]byte, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Comment = fmt.Sprintf("run %s rung %d", runID, rung)
	enc := json.NewEncoder(z)
	for i := range requests {
		if err := enc.Encode(&requests[i]); err != nil {
			return nil, err
		}
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// logRun is the run that the log at path belongs to, "" when it cannot be told (or is no plain word, fit for a name).
func logRun(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return ""
	}
	id, _, _ := strings.Cut(strings.TrimPrefix(z.Comment, "run "), " ")
	if len(id) > 64 || strings.ContainsFunc(id, func(c rune) bool { return c != '-' && c != '_' && !alphanumeric(c) }) {
		return ""
	}
	return id
}

func alphanumeric(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// FindLog is the path of the request log of the run whose artifact lies at path: beside it, under the artifact's name as
// it is or was, whichever holds that run. A later run takes the name, and each file then carries its run id.
func FindLog(path, runID string) (string, error) {
	dir, name := filepath.Split(path)
	own := artifact.RequestLogName(name)
	tried := []string{
		own,
		strings.TrimSuffix(own, logExt) + "-" + runID + logExt,
		strings.TrimSuffix(own, "-"+runID+logExt) + logExt,
	}
	for _, t := range tried {
		if logRun(filepath.Join(dir, t)) == runID {
			return filepath.Join(dir, t), nil
		}
	}
	return "", fmt.Errorf("no request log of run %s beside %s (%s): %w", runID, path, own, fs.ErrNotExist)
}
