package replay

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.yaml.in/yaml/v3"

	"loadline/internal/audio"
	"loadline/internal/serve"
)

func TestBuiltins(t *testing.T) {
	for _, name := range []string{"kokoro-g5", "quick"} {
		p, err := Builtin(name)
		if err != nil {
			t.Fatal(err)
		}
		if p.Name != name || p.Instance.Type != "ml.g5.xlarge" || p.SLO() == 0 || p.Startup.Total() == 0 || p.Source == "" {
			t.Errorf("%+v", p)
		}
	}
	slow, _ := Builtin("kokoro-g5")
	quick, _ := Builtin("quick")
	if got := slow.Mean(25.2); got != 55870*time.Microsecond {
		t.Errorf("kokoro-g5 takes %v on average", got)
	}
	if slow.Mean(25.2) != 10*quick.Mean(25.2) || slow.SLO() != 10*quick.SLO() || slow.Startup.Total().Round(time.Second) != 213*time.Second {
		t.Errorf("quick is not kokoro-g5 ten times as fast")
	}
	if _, err := Builtin("slow"); err == nil || !strings.Contains(err.Error(), "kokoro-g5, quick") {
		t.Errorf("an unknown name: %v", err)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", "the file is empty"},
		{"not YAML", "name: [", "profile: yaml"},
		{"an unknown key", "name: x\nservice: {base_ms: 1, speed: 2}\n", "speed"},
		{"two documents", "name: x\nservice: {base_ms: 1}\n---\nname: y\n", "more than one document"},
		{"no work", "name: x\n", "no server works in no time"},
		{"no name", "service: {base_ms: 1}\n", "name is missing"},
		{"all at once", "name: x\nslo_ms: -1\nservice: {places: 0, base_ms: 1}\n", "slo_ms is -1: it goes from 0 to 3.6e+06; service.places is 0"},
		{"not a number", "name: x\nservice: {base_ms: .nan}\n", "service.base_ms is NaN"},
		{"no such law", "name: x\nservice: {base_ms: 1, law: {kind: gamma}}\n", `service.law.kind is "gamma"`},
		{"cv of normal", "name: x\nservice: {base_ms: 1, law: {kind: normal, cv: 2}}\n", "for a normal law it goes from 0 to 0.3"},
		{"cv of deterministic", "name: x\noverhead: {ms: 1, law: {cv: 1}}\nservice: {base_ms: 1}\n", "overhead.law.cv is 1"},
		{"cv of exponential", "name: x\nservice: {base_ms: 1, law: {kind: exponential, cv: 0.5}}\n", "is 1, or left out"},
		{"empty sample", "name: x\nservice: {base_ms: 1, law: {kind: empirical}}\n", "service.law.values are missing"},
		{"negative sample", "name: x\nservice: {base_ms: 1, law: {kind: empirical, values: [1, -2]}}\n", "values[1] is -2"},
		{"values without a use", "name: x\nservice: {base_ms: 1, law: {values: [1]}}\n", "belong to an empirical law"},
		{"failures", "name: x\nservice: {base_ms: 1}\nfailures: {error: 0.7, empty: 0.7}\n", "add up to 1.4"},
		{"gpu without one", "name: x\nservice: {base_ms: 1}\ninstance: {gpu_busy_percent: 40}\n", "gpu_busy_percent is 40: it goes from 0 to 0"},
		{"a first piece of no sentence", "name: x\nservice: {base_ms: 1}\naudio: {first_s: 1}\n", "set audio.sentences"},
		{"tiny pieces", "name: x\nservice: {base_ms: 1}\naudio: {piece_s: 0.001}\n", "audio.piece_s is 0.001"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := Parse([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v does not say %q", err, c.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range Names() {
		b, err := profiles.ReadFile("profiles/" + name + ".yaml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte("name: x\nservice: {base_ms: 1, law: {kind: empirical, values: [1, 2]}}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Parse(b)
		if err != nil {
			return
		}
		again, err := yaml.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		q, err := Parse(again)
		if err != nil {
			t.Fatalf("%v in\n%s", err, again)
		}
		if len(p.Service.Law.Values)+len(q.Service.Law.Values) == 0 { // an empty list and none are the same
			p.Service.Law.Values, q.Service.Law.Values = nil, nil
		}
		if len(p.Overhead.Law.Values)+len(q.Overhead.Law.Values) == 0 {
			p.Overhead.Law.Values, q.Overhead.Law.Values = nil, nil
		}
		if !reflect.DeepEqual(p, q) {
			t.Fatalf("%+v became %+v", p, q)
		}
	})
}

func TestLawsHaveTheirMeanAndSpread(t *testing.T) {
	for _, c := range []struct {
		law Law
		cv  float64
	}{
		{Law{Kind: "deterministic"}, 0},
		{Law{Kind: "normal", CV: 0.2}, 0.2},
		{Law{Kind: "lognormal", CV: 0.8}, 0.8},
		{Law{Kind: "exponential"}, 1},
		{Law{Kind: "empirical", Values: []float64{10, 10, 40}}, 0.7071},
	} {
		t.Run(c.law.Kind, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			const n = 200000
			sum, sq := 0.0, 0.0
			for range n {
				v := c.law.factor(r)
				if v < 0 {
					t.Fatal("negative")
				}
				sum += v
				sq += v * v
			}
			mean := sum / n
			near(t, "mean", mean, 1, 0.01)
			near(t, "cv", math.Sqrt(math.Max(0, sq/n-mean*mean))/mean, c.cv, 0.02)
		})
	}
}

// engine is one of a profile given as YAML.
func engine(t *testing.T, text string) *Engine {
	t.Helper()
	p, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	e, err := New(p, 1)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// spoken is one text spoken to its end: when each block came, and the sound.
func spoken(t *testing.T, e *Engine, r serve.Request) (at []time.Duration, sound []byte, err error) {
	if r.Speed == 0 {
		r.Speed = 1
	}
	began := time.Now()
	r.Arrived = began
	u, err := e.Prepare(t.Context(), r)
	if err != nil {
		return nil, nil, err
	}
	for u.Size() > 0 {
		blocks, err := u.Next(t.Context(), time.Now())
		if err != nil {
			return at, sound, err
		}
		at, sound = append(at, time.Since(began)), append(sound, bytes.Join(blocks, nil)...)
	}
	return at, sound, nil
}

func TestSound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engine(t, "name: x\nservice: {base_ms: 1}\naudio: {per_char_s: 1, lead_silence_ms: 250}\n")
		_, sound, err := spoken(t, e, serve.Request{Text: "a text of 21 letters."}) // more than two blocks
		if err != nil {
			t.Fatal(err)
		}
		if got, want := len(sound), (21*rate+rate/4)*frame; got != want {
			t.Fatalf("%d bytes of sound, want %d", got, want)
		}
		sample := func(i int) int { return int(int16(binary.LittleEndian.Uint16(sound[2*i:]))) }
		first, peak, step := -1, 0, 0
		for i := range len(sound) / 2 {
			v := sample(i)
			if first < 0 && (v >= audio.Audible || v <= -audio.Audible) {
				first = i
			}
			peak = max(peak, v, -v)
			if i > rate/4 {
				step = max(step, v-sample(i-1), sample(i-1)-v)
			}
		}
		if first < rate/4 || first > rate/4+rate/100 {
			t.Errorf("first audible at sample %d, want within 10 ms of the end of 250 ms of silence", first)
		}
		if peak < 15000 || peak > 25000 {
			t.Errorf("peak %d", peak)
		}
		for _, seam := range []int{rate/4 + loopS*rate, rate/4 + 2*loopS*rate} {
			if d := sample(seam) - sample(seam-1); d > step || -d > step || bytes.Equal(sound[2*seam-200:2*seam], make([]byte, 200)) {
				t.Errorf("the seam at %d steps by %d", seam, d)
			}
		}
	})
}

func TestPiecesComeAsTheyAreReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engine(t, "name: x\nservice: {base_ms: 10, per_char_ms: 2}\noverhead: {ms: 5}\naudio: {per_char_s: 0.1, piece_s: 1}\n")
		at, sound, err := spoken(t, e, serve.Request{Text: strings.Repeat("a", 25)})
		if err != nil {
			t.Fatal(err)
		}
		ms := func(f float64) time.Duration { return time.Duration(math.Round(f * 1e6)) }
		work := 10 + 2*25.0/3 // each of three pieces
		for i, want := range []time.Duration{ms(5 + work), ms(5 + 2*work), ms(5 + 3*work)} {
			if len(at) != 3 || (at[i]-want).Abs() > time.Microsecond {
				t.Fatalf("blocks at %v, the %dth at %v wanted", at, i+1, want)
			}
		}
		if len(sound) != 25*rate/10*frame {
			t.Errorf("%d bytes of sound", len(sound))
		}
		if at, sound, _ = spoken(t, e, serve.Request{Text: strings.Repeat("a", 25), Speed: 2}); len(sound) != 25*rate/20*frame || len(at) != 2 {
			t.Errorf("at double speed: %d bytes in %d pieces", len(sound), len(at))
		}
	})
}

// Two places serve four texts in two rounds; the gate in front keeps any more out.
func TestPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engine(t, "name: x\nservice: {places: 2, base_ms: 100}\n")
		s, err := serve.New(serve.Config{Engine: e})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var run, wg sync.WaitGroup
		run.Go(func() { _ = s.Run(ctx) })
		<-s.Ready()
		busy := s.Busy()
		began := time.Now()
		var took [4]time.Duration
		for i := range took {
			wg.Go(func() {
				serveOne(t, s, "Hello.")
				took[i] = time.Since(began)
			})
			synctest.Wait()
		}
		wg.Wait()
		if want := [4]time.Duration{100e6, 100e6, 200e6, 200e6}; took != want {
			t.Errorf("ended after %v, want %v", took, want)
		}
		if d := s.Busy() - busy; d != 400*time.Millisecond {
			t.Errorf("busy for %v, want 400 ms of place-time", d)
		}
		cancel()
		run.Wait()
	})
}

func TestMoreThanItsPlacesIsAnError(t *testing.T) {
	e := engine(t, "name: x\nservice: {base_ms: 1}\n")
	if _, err := e.take(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := spoken(t, e, serve.Request{Text: "a"}); err == nil || !strings.Contains(err.Error(), "more than 1 utterances") {
		t.Errorf("error %v", err)
	}
}

// Whoever goes in the middle of its work frees the place there and then.
func TestCancelFreesThePlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engine(t, "name: x\nservice: {base_ms: 1000}\n")
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		u, err := e.Prepare(ctx, serve.Request{Text: "a", Speed: 1, Arrived: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := u.Next(ctx, time.Now()); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 300*time.Millisecond {
			t.Fatalf("%v after %v", err, time.Since(began))
		}
		if at, _, err := spoken(t, e, serve.Request{Text: "a"}); err != nil || at[0] != time.Second {
			t.Errorf("the next: %v, %v", at, err)
		}
	})
}

func TestFailuresAreDrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engine(t, "name: x\nservice: {base_ms: 10}\naudio: {per_char_s: 0.1, piece_s: 0.2}\nfailures: {error: 0.1, empty: 0.1, slow: 0.1, slow_factor: 5}\n")
		var failed, midway, empty, slow int
		const n = 5000
		for range n {
			at, sound, err := spoken(t, e, serve.Request{Text: "abcd"})
			switch {
			case err != nil:
				failed++
				if len(sound) > 0 {
					midway++
				}
			case len(sound) == 0:
				empty++
			case at[0] == 50*time.Millisecond:
				slow++
			case at[0] != 10*time.Millisecond:
				t.Fatalf("first piece after %v", at[0])
			}
		}
		for what, got := range map[string]int{"failed": failed, "empty": empty, "slow": slow, "midway": 2 * midway} {
			near(t, what, float64(got)/n, 0.1, 0.025)
		}
	})
}

func TestVoices(t *testing.T) {
	e := engine(t, "name: x\nservice: {base_ms: 0.001}\naudio: {voices: [af_heart, am_adam]}\n")
	for voice, ok := range map[string]bool{"": true, "af_heart": true, "am_adam": true, "zz_top": false} {
		_, _, err := spoken(t, e, serve.Request{Text: "a", Voice: voice})
		var field *serve.FieldError
		if ok != (err == nil) || !ok && (!errors.As(err, &field) || field.Field != "voice" || !strings.Contains(err.Error(), "af_heart, am_adam")) {
			t.Errorf("voice %q: %v", voice, err)
		}
	}
}

func TestSameSeedSameTimes(t *testing.T) {
	run := func(seed uint64) string {
		p, err := Builtin("quick")
		if err != nil {
			t.Fatal(err)
		}
		e, err := New(p, seed)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for i := range 100 {
			u := e.draw(float64(6+i%50), []float64{1}, true)
			fmt.Fprintln(&b, u.overhead, u.pieces)
		}
		return b.String()
	}
	if run(1) != run(1) {
		t.Error("the same seed drew other times")
	}
	if run(1) == run(2) {
		t.Error("another seed drew the same times")
	}
}

// A pause adds its own length to a text, whether the profile takes texts or sentences, and draws nothing.
func TestPause(t *testing.T) {
	for _, sentences := range []bool{false, true} {
		said := func(text string) int {
			e := engine(t, fmt.Sprintf("name: x\nservice: {base_ms: 0.1}\naudio: {per_char_s: 0.02, sentences: %v}\n", sentences))
			s, err := serve.New(serve.Config{Engine: e, Ahead: -1})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			var run sync.WaitGroup
			run.Go(func() { _ = s.Run(ctx) })
			defer run.Wait()
			defer cancel()
			<-s.Ready()
			w := httptest.NewRecorder()
			s.Handler().ServeHTTP(w, httptest.NewRequest("POST", "/invocations", strings.NewReader(fmt.Sprintf(`{"text": %q, "format": "pcm"}`, text))))
			if w.Code != 200 {
				t.Errorf("%s: %d %s", text, w.Code, w.Body)
			}
			return w.Body.Len() / 2
		}
		plain := said("Wait here. Now")
		for text, ms := range map[string]int{
			"Wait <break time='800ms'/> here. Now": 800, "[pause:1s] Wait here. Now": 1000, "Wait here. Now <break/>": 500, "Wait [pause:1ms] here. Now": 1,
		} {
			if got := said(text) - plain; got != 24*ms {
				t.Errorf("%q, sentences %v: %d samples more, want %d", text, sentences, got, 24*ms)
			}
		}
	}
}

// Eight at once get, byte for byte, what each text gets alone, by any voice and rate.
func TestParallelIsSerial(t *testing.T) {
	e := engine(t, "name: x\nservice: {base_ms: 0.2}\naudio: {per_char_s: 0.02, sentences: true, first_s: 0.3, piece_s: 1, voices: [a, b, c, d]}\n")
	s, err := serve.New(serve.Config{Engine: e, Ahead: -1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var run, wg sync.WaitGroup
	run.Go(func() { _ = s.Run(ctx) })
	<-s.Ready()
	say := func(n int) string {
		texts := []string{"Hello.", "One, two, three, and four. Five.", strings.Repeat("A longer text, with a clause in it, goes on. ", 4), "No end to it"}
		body := fmt.Sprintf(`{"text": %q, "voice": %q, "sample_rate": %d}`, texts[n%4], "abcd"[n/4%4:][:1], []int{24000, 16000}[n/16%2])
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequest("POST", "/invocations", strings.NewReader(body)))
		if w.Code != 200 {
			t.Errorf("%s: %d", body, w.Code)
		}
		return w.Body.String()
	}
	var want [32]string
	for n := range want {
		want[n] = say(n)
	}
	each := 50
	if testing.Short() {
		each = 8
	}
	for k := range 8 {
		wg.Go(func() {
			for i := range each {
				if n := (i*7 + k*5) % 32; say(n) != want[n] {
					t.Errorf("request %d is not what it is alone", n)
				}
			}
		})
	}
	wg.Wait()
	cancel()
	run.Wait()
}
