package main

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/spf13/pflag"

	"loadline/internal/load"
	"loadline/internal/transport"
)

// bidi is the transport of SageMaker's bidirectional streams.
const bidi = "bidi"

// bidiFlagged are the flags of bidirectional streams.
type bidiFlagged struct {
	bidiURL  string
	sessions string
	query    string
}

// Whether sessions last from text to text.
const (
	sessionsKept = "kept"
	sessionsEach = "each"
)

func (f *bidiFlagged) bidiFlags(fl *pflag.FlagSet) {
	fl.StringVar(&f.bidiURL, "bidi-endpoint-url", "", "a local endpoint's second door, for --transport bidi (the certificate that it is trusted by: AWS_CA_BUNDLE)")
	fl.StringVar(&f.sessions, "sessions", sessionsKept, "of --transport bidi: kept, from text to text where the messages name the text, or each, one for every text")
	fl.StringVar(&f.query, "query", "", "of --transport bidi: query string for the container, key=value&key=value")
}

// bidiMisuse is what is wrong with them.
func (a *app) bidiMisuse(f targetFlags, set func(string) bool) (bad []error) {
	if f.url != "" || f.transport != bidi {
		for _, name := range []string{"bidi-endpoint-url", "sessions", "query"} {
			if set(name) {
				bad = append(bad, fmt.Errorf("--%s is for --transport bidi", name))
			}
		}
		return bad
	}
	if f.sessions != sessionsKept && f.sessions != sessionsEach {
		bad = append(bad, fmt.Errorf("--sessions %q: kept or each", f.sessions))
	}
	if cmp.Or(f.endpointURL, a.env["AWS_ENDPOINT_URL"]) != "" && a.bidiURL(f) == "" {
		bad = append(bad, errors.New("--transport bidi with a local endpoint: give its second door too, --bidi-endpoint-url URL (sagemaker-local serve --bidi-addr prints it); else AWS itself would be asked"))
	}
	return bad
}

// bidiURL is where bidirectional streams are asked, "" for AWS's own.
func (a *app) bidiURL(f targetFlags) string {
	return cmp.Or(f.bidiURL, a.env["AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME_HTTP2"])
}

// overBidi fills in the part of a target that a bidirectional stream has.
func (t *target) overBidi(a *app, f targetFlags, set func(string) bool) error {
	t.bidi = transport.BidiOptions{URL: a.bidiURL(f), Query: f.query, Each: f.sessions == sessionsEach, End: f.end, Payload: t.payload}
	body := ""
	var err error
	if set("body") {
		if body, err = a.body(f.body); err != nil {
			return err
		}
	}
	if t.bidi.Messages, err = transport.ParseMessages(body); err != nil {
		return fmt.Errorf("--body: %w", err)
	}
	return nil
}

func (t *target) openBidi(cfg aws.Config, net transport.Net) (load.Transport, error) {
	o := t.bidi
	o.Net, o.Endpoint, o.Variant = net, t.Endpoint, t.Variant
	return transport.NewBidi(cfg, o)
}

// probesEach makes a probe that is to reach new instances open a session for each text: one that is kept stays where it
// is. It says whether the target has sessions at all.
func (t *target) probesEach() bool {
	t.bidi.Each = true
	return t.Transport == bidi
}
