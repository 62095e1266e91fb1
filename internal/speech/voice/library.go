package voice

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"loadline/internal/speech/phoneme"
)

// Library is the voices of a folder. It is safe for concurrent use.
type Library struct {
	folder fs.FS
	names  []string // sorted
	limit  int

	mu     sync.Mutex
	styles map[string]*held // by blend
	clock  int64
}

type held struct {
	style *Style
	used  int64
}

// Open lists the packs of a folder, NAME.bin each of Size bytes. At most so many styles are kept in memory, at 522 kB each.
func Open(folder fs.FS, keep int) (*Library, error) {
	entries, err := fs.ReadDir(folder, ".")
	if err != nil {
		return nil, fmt.Errorf("list the voices: %w", err)
	}
	l := &Library{folder: folder, limit: max(1, keep), styles: make(map[string]*held)}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".bin")
		if !ok || name == "" || strings.IndexFunc(name, func(r rune) bool { return !named(r) }) >= 0 {
			continue
		}
		info, err := fs.Stat(folder, e.Name())
		if err != nil {
			return nil, fmt.Errorf("list the voices: %w", err)
		}
		if info.Size() != Size || !info.Mode().IsRegular() {
			return nil, fmt.Errorf("the voice pack %s has %d bytes, not %d: copy it again", e.Name(), info.Size(), Size)
		}
		l.names = append(l.names, name)
	}
	if len(l.names) == 0 {
		return nil, errors.New("no voice pack (NAME.bin) in the folder of voices")
	}
	slices.Sort(l.names)
	return l, nil
}

// Names are the voices, sorted.
func (l *Library) Names() []string { return slices.Clone(l.names) }

// UnknownError is a voice that the library lacks.
type UnknownError struct {
	Name string
	Near []string // names like it
	All  int      // voices that there are
}

func (e *UnknownError) Error() string {
	if len(e.Near) == 0 {
		return fmt.Sprintf("no voice is named %.40q, nor like it, among %d", e.Name, e.All)
	}
	return fmt.Sprintf("no voice is named %.40q: near it are %s, of %d voices", e.Name, strings.Join(e.Near, ", "), e.All)
}

// Check says whether all voices of a blend are there. Its error is an *UnknownError.
func (l *Library) Check(b Blend) error {
	for _, p := range b {
		if _, ok := slices.BinarySearch(l.names, p.Name); !ok {
			return &UnknownError{Name: p.Name, Near: near(p.Name, l.names), All: len(l.names)}
		}
	}
	return nil
}

// Style is the style of a blend: the mean of its voices by their shares.
func (l *Library) Style(b Blend) (*Style, error) {
	if err := l.Check(b); err != nil {
		return nil, err
	}
	key := b.String()
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.styles[key]; h != nil {
		l.clock++
		h.used = l.clock
		return h.style, nil
	}
	var s *Style
	if len(b) == 1 {
		var err error
		if s, err = l.read(b[0].Name); err != nil {
			return nil, err
		}
	} else {
		sum := make([]float64, phoneme.Rows*Width)
		for _, p := range b {
			one, err := l.read(p.Name)
			if err != nil {
				return nil, err
			}
			for i, f := range one.rows {
				sum[i] += p.Share * float64(f)
			}
		}
		s = &Style{rows: make([]float32, len(sum))}
		for i, f := range sum {
			s.rows[i] = float32(f)
		}
	}
	if len(l.styles) >= l.limit {
		oldest := ""
		for k, h := range l.styles {
			if oldest == "" || h.used < l.styles[oldest].used {
				oldest = k
			}
		}
		delete(l.styles, oldest)
	}
	l.clock++
	l.styles[key] = &held{s, l.clock}
	return s, nil
}

// read takes a pack from memory or the folder. The name is one of the list.
func (l *Library) read(name string) (*Style, error) {
	if h := l.styles[name]; h != nil {
		return h.style, nil
	}
	f, err := l.folder.Open(path.Clean(name + ".bin"))
	if err != nil {
		return nil, fmt.Errorf("read the voice %s: %w", name, err)
	}
	defer f.Close()
	pack, err := io.ReadAll(io.LimitReader(f, Size+1))
	if err != nil {
		return nil, fmt.Errorf("read the voice %s: %w", name, err)
	}
	s, err := Decode(pack)
	if err != nil {
		return nil, fmt.Errorf("read the voice %s: %w", name, err)
	}
	return s, nil
}

// near is the names least different from one, at most three.
func near(name string, names []string) []string {
	name = strings.ToLower(name[:min(len(name), 64)])
	type candidate struct {
		name string
		d    int
	}
	var all []candidate
	for _, n := range names {
		d := distance(name, strings.ToLower(n))
		if _, own, ok := strings.Cut(n, "_"); ok { // "bella" is near af_bella
			d = min(d, distance(name, own)+1)
		}
		if d <= max(2, len(name)/3) {
			all = append(all, candidate{n, d})
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return a.d - b.d })
	var out []string
	for _, c := range all[:min(3, len(all))] {
		out = append(out, c.name)
	}
	return out
}

// distance is the letters to change, add or leave out to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		last := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := last
			if a[i] != b[j] {
				cost++
			}
			last = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
