package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/spf13/pflag"

	"loadline/internal/artifact"
	"loadline/internal/audio"
	"loadline/internal/awsfleet"
	"loadline/internal/exit"
	"loadline/internal/load"
	"loadline/internal/registry"
	"loadline/internal/transport"
)

// The transports of a SageMaker target; those of a target by URL are doors.
const (
	responseStream = "response-stream"
	invoke         = "invoke"
)

// targetFlags name what requests are sent to, and how.
type targetFlags struct {
	model, models       string
	endpoint, variant   string
	region, endpointURL string
	transport           string
	url, name           string
	headers             []string
	body, payload, end  string
	bidiFlagged
	componentFlagged
}

func (f *targetFlags) add(fl *pflag.FlagSet) {
	fl.StringVar(&f.model, "model", "", "model in the registry: names its endpoint, variant, objective and price")
	fl.StringVar(&f.models, "models", "models.yaml", "model registry")
	fl.StringVar(&f.endpoint, "endpoint", "", "SageMaker endpoint")
	fl.StringVar(&f.variant, "variant", "", "its variant (default: the only one)")
	fl.StringVar(&f.region, "region", "", "AWS region (default: the SDK's)")
	fl.StringVar(&f.endpointURL, "endpoint-url", "", "a local endpoint (sagemaker-local) instead of AWS")
	f.bidiFlags(fl)
	fl.StringVar(&f.transport, "transport", responseStream, "how SageMaker is asked: response-stream, invoke or bidi (bidirectional stream); by --url: "+transport.DoorNames()+" (default: response-stream; of a --url, what its scheme says)")
	fl.StringVar(&f.url, "url", "", "or any server that streams its reply, by http, https, ws or wss: nothing is frozen there")
	fl.StringVar(&f.name, "name", "", "what to call the model behind --url (default: its host)")
	fl.StringArrayVar(&f.headers, "header", nil, `header for --url, "Name: value"; $NAME is taken from the environment (repeatable)`)
	fl.StringVar(&f.body, "body", transport.BodyKokoro, "request body: kokoro, openai-speech, raw, or a template with {{.Text}} and ${NAME} of the environment; @FILE reads one. Of a WebSocket or a bidirectional stream it is the messages, a line each, {{.ID}} naming the text; none given: a session of speech-server")
	fl.StringVar(&f.end, "end", "", "of a reply in events or messages: what the last one is, as text or KEY=VALUE, where it is none that is known; close: a tidy close")
	fl.StringVar(&f.payload, "payload", string(audio.Sound), "what replies hold: audio, json or bytes")
}

// target is what targetFlags came to.
type target struct {
	artifact.Target
	model   *registry.Model // nil: not in the registry
	header  http.Header
	body    transport.Template
	payload audio.Payload

	door   transport.Door // by URL, with what it sends instead of body
	spoken transport.Spoken
	end    string
	bidi   transport.BidiOptions // of a bidirectional stream
	url    string                // with what Target.URL leaves out
	origin string                // the endpoint that Endpoint is a clone of
}

// target reads the flags; it asks nothing over the network.
func (a *app) target(f targetFlags, set func(string) bool) (target, error) {
	var t target
	var bad []error
	add := func(wrong bool, format string, args ...any) {
		if wrong {
			bad = append(bad, fmt.Errorf(format, args...))
		}
	}
	add(f.url == "" && f.model == "" && f.endpoint == "", "nothing to ask: give --model NAME, --endpoint NAME or --url URL")
	add(f.url != "" && (f.endpoint != "" || f.model != ""), "--url and --endpoint or --model exclude each other")
	for _, name := range []string{"variant", "region", "endpoint-url"} {
		add(f.url != "" && set(name), "--%s is for SageMaker endpoints, not for --url", name)
	}
	for _, name := range []string{"name", "header"} {
		add(f.url == "" && set(name), "--%s is for --url", name)
	}
	add(f.url == "" && set("end") && f.transport != bidi, "--end is for --url, and for --transport bidi")
	add(f.url == "" && f.transport != responseStream && f.transport != invoke && f.transport != bidi, "--transport %q: response-stream, invoke or bidi", f.transport)
	bad = append(bad, a.bidiMisuse(f, set)...)
	bad = append(bad, f.componentMisuse(f, set)...)

	var err error
	if t.payload, err = audio.ParsePayload(f.payload); err != nil {
		bad = append(bad, fmt.Errorf("--payload: %w", err))
	}
	if t.header, err = a.headers(f.headers); err != nil {
		bad = append(bad, err)
	}
	t.Payload = string(t.payload)
	if f.url != "" {
		if err := t.byURL(a, f, set); err != nil {
			bad = append(bad, err)
		}
		return t, exit.Misuse(errors.Join(bad...))
	}
	t.Transport, t.Component = f.transport, f.component
	if f.transport == bidi {
		if err := t.overBidi(a, f, set); err != nil {
			bad = append(bad, err)
		}
	} else if text, err := a.body(f.body); err != nil {
		bad = append(bad, err)
	} else if t.body, err = transport.ParseTemplate(text); err != nil {
		bad = append(bad, fmt.Errorf("--body: %w", err))
	}
	if err := t.register(f, set); err != nil {
		bad = append(bad, err)
	}
	return t, exit.Misuse(errors.Join(bad...))
}

// register finds the model in the registry, by its name or by its endpoint's. A registry that was not asked for may be
// missing.
func (t *target) register(f targetFlags, set func(string) bool) error {
	t.Endpoint, t.Variant, t.Model = f.endpoint, f.variant, f.endpoint
	asked := f.model != "" || set("models")
	if _, err := os.Stat(f.models); errors.Is(err, fs.ErrNotExist) && !asked {
		return nil
	}
	file, err := registry.Load(f.models)
	if err != nil {
		return err
	}
	if f.model != "" {
		if t.model, err = file.Model(f.model); err != nil {
			return err
		}
		if f.endpoint == "" {
			t.Endpoint = t.model.Endpoint
			if t.Variant == "" {
				t.Variant = t.model.Variant
			}
		}
	}
	for i := range file.Models {
		if m := &file.Models[i]; t.model == nil && m.Endpoint == f.endpoint {
			t.model = m
		}
	}
	if t.model != nil {
		t.Model = t.model.Name
	}
	return nil
}

// headers reads "Name: value" lines, with $NAME filled in from the environment.
func (a *app) headers(lines []string) (http.Header, error) {
	h := http.Header{}
	for _, line := range lines {
		name, value, ok := strings.Cut(line, ":")
		name = strings.TrimSpace(name)
		if !ok || name == "" || strings.ContainsAny(name, " \t") {
			return nil, errors.New(`--header: want "Name: value"`) // its value may be a secret: it is not repeated
		}
		var unset []string
		value = os.Expand(strings.TrimSpace(value), func(key string) string {
			v, ok := a.env[key]
			if !ok {
				unset = append(unset, "$"+key)
			}
			return v
		})
		if unset != nil {
			return nil, fmt.Errorf("--header %s: %s is not set in the environment", name, strings.Join(unset, ", "))
		}
		h.Add(name, value)
	}
	return h, nil
}

// aws is the SDK's configuration for a SageMaker target; what it took upon itself is said on stderr.
func (a *app) aws(ctx context.Context, f targetFlags) (aws.Config, error) {
	cfg, notes, err := awsfleet.Load(ctx, awsfleet.Config{Region: f.region, EndpointURL: f.endpointURL})
	for _, note := range notes {
		fmt.Fprintln(a.stderr, note)
	}
	return cfg, err
}

// open makes the transport; cfg is used for SageMaker targets alone.
func (a *app) open(cfg aws.Config, t target, streams int) (load.Transport, error) {
	net := transport.Net{Streams: streams}
	if a.proxied() {
		net.Proxy = http.ProxyFromEnvironment
	}
	if bundle := a.env["AWS_CA_BUNDLE"]; bundle != "" && t.URL == "" {
		pem, err := os.ReadFile(bundle)
		if err != nil {
			return nil, exit.CannotTell(fmt.Errorf("AWS_CA_BUNDLE: %w", err))
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(pem) {
			return nil, exit.Misuse(fmt.Errorf("AWS_CA_BUNDLE: %s holds no certificate", bundle))
		}
		net.TLS = &tls.Config{RootCAs: roots}
	}
	var tr load.Transport
	var err error
	switch {
	case t.Transport == bidi:
		tr, err = t.openBidi(cfg, net)
	case t.URL != "":
		tr, err = t.door.Open(transport.DoorOptions{Net: net, URL: t.url, Header: t.header, Spoken: t.spoken, End: t.end, Payload: t.payload})
	default:
		tr, err = transport.NewSageMaker(cfg, transport.SageMakerOptions{
			Net: net, Endpoint: t.Endpoint, Variant: t.Variant, Component: t.Component, Invoke: t.Transport == invoke, Body: t.body, Payload: t.payload,
		})
	}
	return tr, exit.Misuse(err)
}

func (a *app) proxied() bool {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
		if a.env[name] != "" {
			return true
		}
	}
	return false
}
