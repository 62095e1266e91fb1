package audit

import (
	"fmt"
	"time"

	"loadline/internal/autoscale"
)

// Held is one time that the scaler was asked to change a count and did not.
type Held struct {
	Resource string
	At       time.Time
	Codes    []string // as AWS writes them
}

// heldFor is how long ago the scaler held still for it to say something of now.
const heldFor = time.Hour

// NotScaled says what a reason of Application Auto Scaling for having done nothing means; "" for one that is not known
// here. full is whether the fleet lacks room to grow: the others are how a scaler that is well goes about it.
//
// The codes are those of the API's NotScaledReason.
func NotScaled(code string) (means string, full bool) {
	switch code {
	case autoscale.Flapping:
		return "healthy: a change would have been taken back at once", false
	case autoscale.AtMax:
		return "no room: the fleet is as large as it may be, and more load will be late or refused", true
	case autoscale.AtMin, autoscale.AtDesired:
		return "healthy: there was nothing to do", false
	case autoscale.Unscalable:
		return "the endpoint was changing, or does not take changes now", false
	}
	return "", false
}

// held says for which reasons the scaler did nothing of late, each with its newest time. None of them is a difference from
// what is declared.
func (c *comparison) held(res string) {
	said := map[string]bool{}
	for _, h := range c.have.Held {
		if h.Resource != res || c.now.Sub(h.At) > heldFor {
			continue
		}
		for _, code := range h.Codes {
			if said[code] {
				continue
			}
			said[code] = true
			kind, mend := "not_scaled", ""
			means, full := NotScaled(code)
			if full {
				kind, mend = "at_max", "tts-bench plan with the peak that comes now, and --quota"
			}
			found := code
			if means != "" {
				found += ", " + means
			}
			c.find(kind, Info, res, fmt.Sprintf("%s ago the scaler held still: %s", c.now.Sub(h.At).Round(time.Second), found), "a scaler that follows its policies", mend)
			c.Findings[len(c.Findings)-1].ID += ":" + code
		}
	}
}
