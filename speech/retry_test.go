package speech

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// What a server asks for is waited for, and up to twice as long in turn on top; a wait that cannot end in time is not begun.
func TestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRetrier(Retry{Tries: 6, Budget: 1, Base: 100 * time.Millisecond, Most: 300 * time.Millisecond})
		longest := map[int]time.Duration{}
		for range 200 {
			for tries, most := range map[int]time.Duration{1: 100, 2: 200, 3: 300, 5: 300} {
				r.first()
				start := time.Now()
				if err := r.again(t.Context(), tries, &Error{Kind: Saturated, RetryAfter: 2 * time.Second}); err != nil {
					t.Fatal(err)
				}
				extra := time.Since(start) - 2*time.Second
				if extra < 0 || extra > most*time.Millisecond {
					t.Fatalf("try %d: waited %v beyond what was asked for", tries, extra)
				}
				longest[tries] = max(longest[tries], extra)
			}
		}
		if longest[1] < 80*time.Millisecond || longest[3] < 240*time.Millisecond {
			t.Errorf("jitter of at most %v: it is to spread callers", longest)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		e := &Error{Kind: Saturated, RetryAfter: 2 * time.Second}
		if err := r.again(ctx, 1, e); !errors.Is(err, ErrSaturated) || time.Since(start) != 0 {
			t.Errorf("%v after %v: there was no time to wait", err, time.Since(start))
		}
		if err := r.again(t.Context(), 6, e); !errors.Is(err, ErrSaturated) || e.Tries != 6 {
			t.Errorf("the last try: %v", err)
		}
		if err := r.again(t.Context(), 1, &Error{Kind: Invalid}); !errors.Is(err, ErrInvalid) {
			t.Errorf("no use: %v", err)
		}
		gone, cancel := context.WithTimeout(t.Context(), 2050*time.Millisecond)
		defer cancel()
		time.AfterFunc(2*time.Second, cancel)
		if err := r.again(gone, 1, &Error{Kind: Server, RetryAfter: 0}); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func TestKinds(t *testing.T) {
	for o, k := range kinds {
		e := failure(o, "why", 503, 0)
		if e.Kind != k || k == "" || !errors.Is(e, &Error{Kind: k}) || errors.Is(e, ErrClosed) {
			t.Errorf("%s: %v", o, e)
		}
	}
	e := &Error{Kind: Saturated, Cause: "50 of 50", Tries: 3, Spent: true, RetryAfter: time.Second}
	if got := e.Error(); got != "speech: saturated: 50 of 50 (3 tries, the budget of retries is spent, the server asks for 1s)" {
		t.Error(got)
	}
}
