package serve

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"loadline/internal/admission"
	"loadline/internal/speech"
)

// FromEnv fills in the settings that operators give a container by its environment: MAX_QUEUE_DEPTH (requests queued and
// executing, 0 unbounded), MAX_REQUEST_AGE_S (seconds), SLO_MS (of first audio), SCHED (deadline or fifo), GATE (depth or
// slo), WARMUP_TEXT, ENDPOINT_NAME, VARIANT_NAME, SPEECH_INSTANCE (named in replies) and CONTAINER_START_EPOCH (Unix
// seconds). The error lists every variable that is wrong; others are left alone.
func (c *Config) FromEnv(env map[string]string) error {
	var wrong []string
	number := func(key string, low, high float64, whole bool, set func(float64)) {
		v, ok := env[key]
		if !ok || v == "" {
			return
		}
		f, err := strconv.ParseFloat(v, 64)
		if err != nil || !(f >= low && f <= high) || whole && f != float64(int64(f)) {
			kind := "a number"
			if whole {
				kind = "a whole number"
			}
			wrong = append(wrong, fmt.Sprintf("%s=%q: want %s from %v to %v", key, v, kind, low, high))
			return
		}
		set(f)
	}
	number("MAX_QUEUE_DEPTH", 0, 1e6, true, func(f float64) { c.QueueDepth = int(f) })
	number("MAX_REQUEST_AGE_S", 0.001, 3600, false, func(f float64) { c.MaxAge = time.Duration(f * float64(time.Second)) })
	number("SLO_MS", 1, 3.6e6, false, func(f float64) { c.SLO = time.Duration(f * float64(time.Millisecond)) })
	number("CONTAINER_START_EPOCH", 1, 1e11, false, func(f float64) { c.Started = time.UnixMilli(int64(f * 1e3)) })
	word := func(key, first, second string, set func(second bool)) {
		switch v := env[key]; v {
		case "":
		case first, second:
			set(v == second)
		default:
			wrong = append(wrong, fmt.Sprintf("%s=%q: want %s or %s", key, v, first, second))
		}
	}
	word("SCHED", "deadline", "fifo", func(fifo bool) {
		if c.Order = admission.Deadline; fifo {
			c.Order = admission.FIFO
		}
	})
	word("GATE", "depth", "slo", func(slo bool) { c.Predict = slo })
	if v := env["WARMUP_TEXT"]; v != "" {
		if speech.Clean(v) == "" {
			wrong = append(wrong, fmt.Sprintf("WARMUP_TEXT=%q: want a text with a letter or digit in it", v))
		}
		c.WarmupText = v
	}
	if v := env["SPEECH_INSTANCE"]; v != "" {
		c.Instance = v
	}
	if v := env["ENDPOINT_NAME"]; v != "" {
		c.Endpoint = v
	}
	if v := env["VARIANT_NAME"]; v != "" {
		c.Variant = v
	}
	if len(wrong) > 0 {
		return fmt.Errorf("container environment: %s", strings.Join(wrong, "; "))
	}
	return nil
}
