// Command kokoro-onnx measures Kokoro's engine on stand-in graphs: what it adds to the model's own time, whether parallel
// requests hear what each would alone, how soon a run is broken off and what is left of ten thousand of them, whether memory
// stays, and how many listeners it holds by playback deadline against a lock per request.
//
//	make setup && go run ./bench/kokoro-onnx
//	go run ./bench/kokoro-onnx -overhead
//
// The texts, their phonemes, ONNX Runtime and the server are real; the graph hums, and costs what its size costs. It prints
// figures with their targets and exits 1 when one is missed.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"loadline/bench/machine"
	"loadline/bench/times"
	"loadline/internal/admission"
	"loadline/internal/corpus"
	"loadline/internal/engine/child"
	"loadline/internal/engine/kokoro"
	"loadline/internal/engine/kokoro/standin"
	"loadline/internal/engine/phonemes"
	"loadline/internal/serve"
	"loadline/internal/speech"
)

var (
	library = flag.String("onnxruntime", ".onnxruntime/libonnxruntime.so.1", "ONNX Runtime's shared library")
	speller = flag.String("espeak-phonemes", "bin/espeak-phonemes", "the program that says how words sound, or espeak-ng")
	alone   = flag.Bool("overhead", false, "measure the own time of a sentence and nothing else")
	point   = flag.Duration("point", time.Minute, "length of each point of the comparison of orders; 0: none")
	cancels = flag.Int("cancels", 10_000, "sentences to break off, and a twentieth of them on the large graph")
)

var failed bool

func judge(ok bool) string {
	if ok {
		return "PASS"
	}
	failed = true
	return "FAIL"
}

func main() {
	flag.Parse()
	fmt.Printf("machine: %s\n\n", machine.String())
	if err := bench(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "bench/kokoro-onnx:", err)
		os.Exit(3)
	}
	if failed {
		os.Exit(1)
	}
}

func bench(ctx context.Context) error {
	small, done, err := load(ctx, standin.Config{}, 2)
	if err != nil {
		return err
	}
	defer done()
	texts, ok := corpus.Named("default")
	if !ok {
		return errors.New("no corpus default")
	}
	if err := overhead(ctx, small, texts); err != nil {
		return err
	}
	if *alone {
		return nil
	}
	if err := parallel(ctx, small, texts); err != nil {
		return err
	}
	if err := memory(ctx, small, texts); err != nil {
		return err
	}
	if err := broken(ctx, small, texts, *cancels, 4*time.Millisecond); err != nil {
		return err
	}
	// As much work as an accelerator does for the model, for two processors.
	large, done, err := load(ctx, standin.Config{Channels: 1024, Layers: 20}, 1)
	if err != nil {
		return err
	}
	defer done()
	if err := cost(ctx, large, texts); err != nil {
		return err
	}
	if err := broken(ctx, large, texts, *cancels/20, 40*time.Millisecond); err != nil {
		return err
	}
	if *point == 0 {
		return nil
	}
	return orders(ctx, large, texts)
}

// load makes an engine on a stand-in of its own folder.
func load(ctx context.Context, c standin.Config, sessions int) (*kokoro.Engine, func(), error) {
	dir, err := os.MkdirTemp("", "loadline-kokoro-")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(dir)
	for name, content := range standin.Folder(c) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return nil, nil, err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return nil, nil, err
		}
	}
	voices := os.DirFS(dir)
	words := phonemes.New(phonemes.Config{Program: *speller})
	e := kokoro.New(kokoro.Config{Dir: dir, Files: voices, Library: *library, Device: kokoro.CPU, Sessions: sessions, FrontEnd: words})
	if err := e.Load(ctx, func(string) {}); err != nil {
		return nil, nil, fmt.Errorf("%w (make setup gets what is needed)", err)
	}
	// The default voice's style is in memory by now: the folder may go.
	return e, func() { e.Close(); words.Close() }, nil
}

// say speaks a text and returns its sound, and when its first came.
func say(ctx context.Context, e *kokoro.Engine, text, voice string) (sound []byte, first time.Duration, err error) {
	began := time.Now()
	for i, s := range speech.Sentences(text) {
		u, err := e.Prepare(ctx, serve.Request{Text: s, Index: i, Voice: voice, Speed: 1})
		if err != nil {
			return nil, 0, err
		}
		for u.Size() > 0 {
			b, err := u.Next(ctx, began)
			if err != nil {
				return nil, 0, err
			}
			if first == 0 {
				first = time.Since(began)
			}
			sound = append(sound, bytes.Join(b, nil)...)
		}
	}
	return sound, first, nil
}

// overhead is the time of a sentence less that of its runs: reading, phonemes, tokens, pieces, trimming and encoding. Spellings
// are remembered for a while, so the sentences of the first pass have their words in an order that was never heard. After each, a
// program that only hands back what it gets (cat) is sent the sentence: what that takes at its slowest is the machine's.
func overhead(ctx context.Context, e *kokoro.Engine, texts *corpus.Corpus) error {
	r := rand.New(rand.NewPCG(1, 3))
	var all []string
	for i := range 600 {
		for _, s := range speech.Sentences(texts.At(i).Body) {
			words := strings.Fields(s)
			r.Shuffle(len(words)-1, func(i, j int) { words[i], words[j] = words[j], words[i] })
			all = append(all, strings.Join(words, " "))
		}
	}
	bare, err := child.Start("cat")
	if err != nil {
		return err
	}
	defer bare.End()
	back := bufio.NewReader(bare.Out)
	for _, pass := range []string{"never heard before", "heard lately"} {
		var own, prepare, control []time.Duration
		for _, s := range all {
			began, ran := time.Now(), e.Ran()
			u, err := e.Prepare(ctx, serve.Request{Text: s, Index: 1, Speed: 1})
			if err != nil {
				return err
			}
			prepare = append(prepare, time.Since(began))
			for u.Size() > 0 {
				if _, err := u.Next(ctx, began); err != nil {
					return err
				}
			}
			own = append(own, time.Since(began)-(e.Ran()-ran))
			began = time.Now()
			if _, err := io.WriteString(bare.In, s+"\n"); err != nil {
				return err
			}
			if _, err := back.ReadSlice('\n'); err != nil {
				return err
			}
			control = append(control, time.Since(began))
		}
		warm := len(own) / 10 // the first are those of a cold program
		own, prepare, control = own[warm:], prepare[warm:], control[warm:]
		fmt.Printf("own time of a sentence %s, %d, one at a time: p50 %.3f ms, p99 %.3f ms (text and phonemes alone %.3f and %.3f; cat hands one back in %.3f and %.3f) (target p99 2 ms): %s\n",
			pass, len(own), times.MS(times.Quantile(own, 0.5)), times.MS(times.Quantile(own, 0.99)), times.MS(times.Quantile(prepare, 0.5)), times.MS(times.Quantile(prepare, 0.99)),
			times.MS(times.Quantile(control, 0.5)), times.MS(times.Quantile(control, 0.99)), judge(times.Quantile(own, 0.99) < 2*time.Millisecond))
	}
	return nil
}

// parallel has eight callers hear texts in several voices, fifty each, and counts the samples.
func parallel(ctx context.Context, e *kokoro.Engine, texts *corpus.Corpus) error {
	want := map[string]int{}
	for i := range 4 {
		for _, v := range []string{"", "af_heart"} {
			sound, _, err := say(ctx, e, texts.At(i).Body, v)
			if err != nil {
				return err
			}
			want[fmt.Sprint(i, v)] = len(sound) / 2
		}
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var other int
	var trouble error
	for n := range 8 {
		wg.Go(func() {
			for k := range 50 {
				i, v := (n+k)%4, []string{"", "af_heart"}[k/4%2]
				sound, _, err := say(ctx, e, texts.At(i).Body, v)
				mu.Lock()
				trouble = errors.Join(trouble, err)
				if len(sound)/2 != want[fmt.Sprint(i, v)] {
					other++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	fmt.Printf("8 callers, 50 texts each, on two sessions: %d of 400 with another number of samples than alone (target 0): %s\n", other, judge(other == 0 && trouble == nil))
	return trouble
}

// resident is the memory of this process.
func resident() float64 {
	runtime.GC()
	debug.FreeOSMemory()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return math.NaN()
	}
	var size, pages float64
	if _, err := fmt.Sscan(string(b), &size, &pages); err != nil {
		return math.NaN()
	}
	return pages * float64(os.Getpagesize()) / (1 << 20)
}

// memory compares what is resident after 500 texts of varied length and after 2,000.
func memory(ctx context.Context, e *kokoro.Engine, texts *corpus.Corpus) error {
	early := 0.0
	for i := range 2000 {
		if i == 500 {
			early = resident()
		}
		if _, _, err := say(ctx, e, texts.At(i).Body, ""); err != nil {
			return err
		}
	}
	late := resident()
	fmt.Printf("resident after 500 and after 2,000 texts: %.0f and %.0f MB (target 5 %% apart): %s\n", early, late, judge(math.Abs(late/early-1) < 0.05))
	return nil
}

// cost is how long sessions run for a second of sound.
func cost(ctx context.Context, e *kokoro.Engine, texts *corpus.Corpus) error {
	long := ""
	for i := 0; len(long) < 400; i++ {
		long += " " + texts.At(i).Body
	}
	sound, _, err := say(ctx, e, long, "")
	if err != nil {
		return err
	}
	began, ran := time.Now(), e.Ran()
	if sound, _, err = say(ctx, e, long, ""); err != nil {
		return err
	}
	took := e.Ran() - ran
	rtf := took.Seconds() / (float64(len(sound)) / 2 / kokoro.Rate)
	fmt.Printf("\nstand-in of 1024 channels and 20 layers: real-time factor %.3f (%v for %.1f s of sound)\n", rtf, time.Since(began).Round(time.Millisecond), float64(len(sound))/2/kokoro.Rate)
	return nil
}

// broken breaks n sentences off, some time within their first.
func broken(ctx context.Context, e *kokoro.Engine, texts *corpus.Corpus, n int, within time.Duration) error {
	r := rand.New(rand.NewPCG(1, 9))
	before := runtime.NumGoroutine()
	var mem float64
	var late []time.Duration
	for i := range n {
		if i == n/10 {
			mem = resident()
		}
		u, err := e.Prepare(ctx, serve.Request{Text: texts.At(i).Body, Index: 1, Speed: 1})
		if err != nil {
			return err
		}
		one, cancel := context.WithCancel(ctx)
		told := make(chan time.Time, 1)
		timer := time.AfterFunc(time.Duration(r.Int64N(int64(within))), func() {
			told <- time.Now()
			cancel()
		})
		for u.Size() > 0 && err == nil {
			_, err = u.Next(one, time.Now())
		}
		ended := time.Now()
		if !timer.Stop() {
			late = append(late, ended.Sub(<-told))
		}
		cancel()
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	for range 100 { // what was told to end has a moment to
		if runtime.NumGoroutine() <= before {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	after := resident()
	fmt.Printf("%d of %d sentences broken off within their first %v: ended p50 %.1f, p99 %.1f, at most %.1f ms later (target 150 ms): %s\n",
		len(late), n, within, times.MS(times.Quantile(late, 0.5)), times.MS(times.Quantile(late, 0.99)), times.MS(times.Quantile(late, 1)), judge(times.Quantile(late, 1) <= 150*time.Millisecond))
	fmt.Printf("left of them: %d tensors, %d goroutines, %.0f MB after the first tenth and %.0f at the end (target 0, 0, 5 %% apart): %s\n",
		kokoro.Tensors(), runtime.NumGoroutine()-before, mem, after,
		judge(kokoro.Tensors() == 0 && runtime.NumGoroutine() <= before && math.Abs(after/mem-1) < 0.05))
	return nil
}

// orders holds the order by playback deadline against a lock per request: in bursts, and with listeners that come and go.
func orders(ctx context.Context, e *kokoro.Engine, texts *corpus.Corpus) error {
	both := []admission.Order{admission.FIFO, admission.Deadline}
	alone, err := bursts(ctx, e, admission.Deadline, 1, texts)
	if err != nil {
		return err
	}
	// The promise follows what the machine does now: six times the wait of a caller who is alone.
	slo = (6 * times.Quantile(alone, 0.5)).Round(time.Millisecond)
	fmt.Printf("\nbursts of requests for six texts each, 10 of each size: p95 of first audio within %v\norder      requests   p50 ms   p95 ms\n", slo)
	q := map[admission.Order]int{}
	for _, o := range both {
		for n, missed := 1, 0; missed < 2; n += max(1, n/4) { // one miss may be the machine's
			first, err := bursts(ctx, e, o, n, texts)
			if err != nil {
				return err
			}
			fmt.Printf("%-9s %9d %8.0f %8.0f\n", o, n, times.MS(times.Quantile(first, 0.5)), times.MS(times.Quantile(first, 0.95)))
			if times.Quantile(first, 0.95) > slo {
				missed++
				continue
			}
			q[o], missed = n, 0
		}
	}
	gain := float64(q[admission.Deadline]) / float64(max(1, q[admission.FIFO]))
	fmt.Printf("at once: %d by deadline, %d by lock: %.1f times (target 3): %s\n", q[admission.Deadline], q[admission.FIFO], gain, judge(gain >= 3))

	fmt.Printf("\nlisteners, each asking again when he has played a text of 3 to 8 to its end: p95 of first audio within %v, at most 1 %% with silence in the middle, %v a point\n", slo, *point)
	fmt.Println("order     listeners    texts   p50 ms   p95 ms   starved   busy")
	holds := func(o admission.Order, n int) (bool, error) {
		h, busy, err := listen(ctx, e, o, n, texts)
		if err != nil {
			return false, err
		}
		fmt.Printf("%-9s %9d %8d %8.0f %8.0f %8.2f %% %4.0f %%\n", o, n, len(h.First), times.MS(times.Quantile(h.First, 0.5)), times.MS(times.Quantile(h.First, 0.95)),
			100*float64(h.Starved)/float64(max(1, len(h.First))), 100*busy)
		return len(h.First) > 0 && times.Quantile(h.First, 0.95) <= slo && float64(h.Starved) <= 0.01*float64(len(h.First)), nil
	}
	lock := 0
	for n := 1; ; n++ {
		ok, err := holds(admission.FIFO, n)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		lock = n
	}
	ok, err := holds(admission.Deadline, 3*max(1, lock))
	if err != nil {
		return err
	}
	fmt.Printf("\n%d listeners by lock, 3 times as many by deadline: %s\n", lock, judge(ok))
	return nil
}
