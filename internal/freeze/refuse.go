package freeze

import (
	"errors"
	"fmt"
	"strings"

	"loadline/internal/exit"
)

// Options are the choices that change what is refused.
type Options struct {
	ProbeDepth bool // measure through a bounded queue by reading its 503s
	NoFreeze   bool // change nothing: the variant must already hold still
}

// Refuse says why v must not be measured whatever its owner consents to, each reason with what to do; nil when nothing
// stands against it.
func Refuse(v Variant, o Options) error {
	var why []error
	one, several, whose := v.words()
	no := func(format string, args ...any) { why = append(why, fmt.Errorf(format, args...)) }

	if tag, ok := v.Tags[TagKey]; ok {
		no("it carries the tag %s = %q: another run froze it and is still measuring, or was killed. If none is running: tts-bench thaw --endpoint %s", TagKey, tag, v.Endpoint)
	}
	switch {
	case v.Async:
		no("it is an asynchronous endpoint: requests go through S3, there is no first audio to time. Measure a real-time endpoint of the same model")
	case v.Serverless:
		no("its variant is serverless: there is no instance to size. Measure a real-time endpoint of the same model")
	case v.Components:
		no("it hosts inference components: they scale by copies, not by the variant's instances. Name one: --component NAME")
	case v.Containers > 1:
		no("its model has %d containers: one request is not one piece of work. Measure an endpoint with a single container", v.Containers)
	}
	switch {
	case v.Status != InService:
		no("it is %s, not %s (desired %d, current %d): wait until it is", v.Status, InService, v.Desired, v.Current)
	case v.Desired != v.Current:
		no("its %s count is changing (desired %d, current %d): wait until it settles", one, v.Desired, v.Current)
	case v.Current < 1:
		no("it has no %s: give it one", one)
	}
	switch bound := v.Fingerprint.QueueBound; {
	case v.BadBound != "":
		no("its container has %s, which is no count, so its queue bound is unknown: set it to a number, 0 for unbounded", v.BadBound)
	case bound != nil && *bound > 0 && !o.ProbeDepth:
		no("its container refuses beyond %d requests queued and executing, so a ladder would measure the gate and not the instance: deploy it with MAX_QUEUE_DEPTH=0, or measure through the gate with --probe-depth", *bound)
	}
	if o.NoFreeze {
		if v.Current > 1 {
			no("--no-freeze: it has %d %s, and Q_max is per %s: leave --no-freeze out, or scale it to one", v.Current, several, one)
		}
		if t := v.Target; t != nil && !t.Suspended.Out && t.Max > v.Current {
			no("--no-freeze: its scaling may add %s (up to %d) while it is measured: leave --no-freeze out, or suspend scale-out", several, t.Max)
		}
	}
	if len(why) == 0 {
		return nil
	}
	for i, err := range why {
		why[i] = fmt.Errorf("endpoint %s, variant %s%s: %w", v.Endpoint, v.Name, whose, err)
	}
	return exit.Refuse(errors.Join(why...))
}

// words are what is counted, one and several, and how the component is named beside the variant.
func (v Variant) words() (one, several, component string) {
	if v.Component == "" {
		return "instance", "instances", ""
	}
	return "copy", "copies", ", inference component " + v.Component
}

// Consent lists what the owner has to agree to before v is measured; nil when nothing asks for it.
func Consent(v Variant) []string {
	var ask []string
	_, several, _ := v.words()
	switch n := v.Invocations; {
	case n == nil:
		ask = append(ask, "whether it serves other traffic could not be read; it will be loaded to its limit")
	case *n > 0:
		ask = append(ask, fmt.Sprintf("it served %.0f requests in the last 10 minutes; it will be loaded to its limit while they go on", *n))
	}
	if v.Current > 1 {
		ask = append(ask, fmt.Sprintf("it has %d %s; one is left while measuring, %d are put back afterwards", v.Current, several, v.Desired))
	}
	if len(v.Neighbours) > 0 {
		ask = append(ask, fmt.Sprintf("other inference components share its instances (%s): their traffic suffers while it is loaded, and is in what is measured", strings.Join(v.Neighbours, ", ")))
	}
	if v.Tags == nil {
		ask = append(ask, "its tags could not be read: it may be production, or another machine may be measuring it")
	}
	if tag := productionTag(v.Tags); tag != "" {
		ask = append(ask, "it is tagged "+tag)
	}
	return ask
}

// productionTag is the tag that marks a production resource, "" for none.
func productionTag(tags map[string]string) string {
	found := ""
	for key, value := range tags {
		marked := false
		switch strings.ToLower(key) {
		case "env", "environment", "stage", "tier":
			switch strings.ToLower(value) {
			case "prod", "production", "live", "prd":
				marked = true
			}
		case "production", "prod":
			switch strings.ToLower(value) {
			case "", "true", "yes", "1":
				marked = true
			}
		}
		if tag := key + " = " + value; marked && (found == "" || tag < found) {
			found = tag
		}
	}
	return found
}
