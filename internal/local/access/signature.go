package access

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"loadline/internal/wire"
)

// Signature version 4, as an AWS service checks it: the request is put into its canonical form again and signed with the
// key that its scope names.

const (
	signatureForm = "AWS4-HMAC-SHA256"
	signatureAge  = 5 * time.Minute // before or after the time here
)

// verify refuses a request that is not signed with the account's keys; body is what came over the wire.
func (a *Access) verify(r *http.Request, body []byte) error {
	if !a.cfg.VerifySignatures {
		return nil
	}
	kind, parts := authorization(r)
	if kind != signatureForm {
		return wire.Refuse(wire.NoSignature, "Missing Authentication Token: the request has no %s signature.", signatureForm)
	}
	scope := strings.Split(parts["Credential"], "/") // key, day, region, service, aws4_request
	if len(scope) != 5 || scope[4] != "aws4_request" {
		return wire.Refuse(wire.BadSignature, "Credential should be scoped to a valid region and service: %q", parts["Credential"])
	}
	date := r.Header.Get("X-Amz-Date")
	at, err := time.Parse("20060102T150405Z", date)
	signed := strings.Split(parts["SignedHeaders"], ";")
	switch {
	case scope[0] != accessKey:
		return wire.Refuse(wire.UnknownKey, "The security token included in the request is invalid.")
	case err != nil:
		return wire.Refuse(wire.BadSignature, "The X-Amz-Date %q is not a time such as 20261130T120000Z.", date)
	case a.cfg.Now().Sub(at).Abs() > signatureAge:
		return wire.Refuse(wire.BadSignature, "Signature expired or not yet current: %s, it is %s now.", date, a.cfg.Now().UTC().Format("20060102T150405Z"))
	case scope[1] != date[:8]:
		return wire.Refuse(wire.BadSignature, "Date in Credential scope %q does not match YYYYMMDD of %q.", scope[1], date)
	case scope[2] != a.cfg.Account.Region:
		return wire.Refuse(wire.BadSignature, "Credential should be scoped to a valid region, %s, not %q.", a.cfg.Account.Region, scope[2])
	case !slices.Contains(signed, "host") && !slices.Contains(signed, ":authority"):
		return wire.Refuse(wire.BadSignature, "'Host' or ':authority' must be a 'SignedHeader' in the AWS Authorization.")
	}
	hash := r.Header.Get("X-Amz-Content-Sha256")
	if sum := sum256(body); hash == "" {
		hash = sum
	} else if len(hash) == 64 && hash != sum {
		return wire.Refuse(wire.BadSignature, "The body does not have the hash that was signed.")
	}
	text := strings.Join([]string{signatureForm, date, strings.Join(scope[1:], "/"), sum256([]byte(canonical(r, signed, hash)))}, "\n")
	if !hmac.Equal([]byte(hex.EncodeToString(mac(signingKey(scope[1:]), text))), []byte(parts["Signature"])) {
		return wire.Refuse(wire.BadSignature, "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key and signing method.")
	}
	return nil
}

// authorization is the form of a request's signature, and its parts.
func authorization(r *http.Request) (kind string, parts map[string]string) {
	kind, rest, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	parts = map[string]string{}
	for _, p := range strings.Split(rest, ",") {
		k, v, _ := strings.Cut(strings.TrimSpace(p), "=")
		parts[k] = v
	}
	return kind, parts
}

// signingKey is the account's key for a scope: day, region, service, aws4_request.
func signingKey(scope []string) []byte {
	key := []byte("AWS4" + secretKey)
	for _, part := range scope {
		key = mac(key, part)
	}
	return key
}

// canonical is the request in the form that is signed.
func canonical(r *http.Request, signed []string, hash string) string {
	var headers strings.Builder
	for _, name := range signed {
		values := r.Header.Values(name)
		if name == "host" || name == ":authority" {
			values = []string{r.Host}
		}
		for i, v := range values {
			values[i] = strings.Join(strings.Fields(v), " ")
		}
		headers.WriteString(name + ":" + strings.Join(values, ",") + "\n")
	}
	path := r.URL.EscapedPath()
	if path == "" {
		path = "/"
	}
	return strings.Join([]string{r.Method, strings.ReplaceAll(encoded(path), "%2F", "/"), canonicalQuery(r.URL.Query()),
		headers.String(), strings.Join(signed, ";"), hash}, "\n")
}

func canonicalQuery(q url.Values) string {
	var pairs []string
	for k, vs := range q {
		for _, v := range vs {
			pairs = append(pairs, encoded(k)+"="+encoded(v))
		}
	}
	slices.Sort(pairs)
	return strings.Join(pairs, "&")
}

// encoded is a text in the percent-encoding of signatures, which leaves only A-Z a-z 0-9 - _ . ~ as they are.
func encoded(s string) string {
	return strings.NewReplacer("+", "%20", "%7E", "~").Replace(url.QueryEscape(s))
}

func sum256(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// Chain verifies a caller's events: each signature signs the one before it, the first the request's.
type Chain struct {
	check  bool
	region string
	prior  string // in hex
}

// Chain of the events that come in a request.
func (a *Access) Chain(r *http.Request) *Chain {
	_, parts := authorization(r)
	return &Chain{check: a.cfg.VerifySignatures, region: a.cfg.Account.Region, prior: parts["Signature"]}
}

// Verify refuses the next event unless it is rightly signed.
func (c *Chain) Verify(e wire.Envelope) error {
	if !c.check {
		return nil
	}
	date := e.Date.UTC().Format("20060102T150405Z")
	scope := []string{date[:8], c.region, "sagemaker", "aws4_request"}
	text := strings.Join([]string{signatureForm + "-PAYLOAD", date, strings.Join(scope, "/"), c.prior, sum256(e.Signed), sum256(e.Payload)}, "\n")
	want := mac(signingKey(scope), text)
	if !hmac.Equal(want, e.Signature) {
		return wire.Refuse(wire.BadSignature, "The event signature we calculated does not match the signature you provided: each event signs the one before it.")
	}
	c.prior = hex.EncodeToString(want)
	return nil
}
