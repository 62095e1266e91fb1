package artifact

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Slug is the part of a file name that tells what was measured: "g5xlarge-8b1b96bc" (instance type, first 8 of the
// image digest), or "url-" and 8 hex of the host for a target by URL. Pairing compares fingerprints, never slugs.
func Slug(t Target, f Fingerprint) string {
	if t.URL != "" {
		sum := sha256.Sum256([]byte(host(t.URL)))
		return "url-" + hex.EncodeToString(sum[:4])
	}
	kind, digest := strings.ReplaceAll(strings.TrimPrefix(f.InstanceType, "ml."), ".", ""), f.ImageDigest
	if kind == "" {
		kind = "unknown"
	}
	if digest == "" {
		digest = "nodigest"
	}
	return word(kind) + "-" + word(digest[:min(8, len(digest))])
}

// host is the host and port of a URL, in lower case.
func host(url string) string {
	_, rest, ok := strings.Cut(url, "://")
	if !ok {
		rest = url
	}
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	return strings.ToLower(rest[strings.LastIndexByte(rest, '@')+1:])
}

// Name is the file name of the ladder: qmax-<model>-<transport>-<slug>.json.
func (q *QMax) Name() string {
	return file("qmax", q.Target.Model, q.Target.Transport, Slug(q.Target, q.Fingerprint))
}

// Name is the file name of the scale-out: ttotal-<model>-<trigger>-<slug>.json.
func (t *TTotal) Name() string {
	return file("ttotal", t.Target.Model, t.Trigger, Slug(t.Target, t.Fingerprint))
}

// Name is the file name of the plan: plan-<model>-<rule>-<slug>.json.
func (p *Plan) Name() string {
	return file("plan", p.Target.Model, p.Rule, Slug(p.Target, p.Fingerprint))
}

// Name is the file name of the freeze record: freeze-<endpoint>-<variant>.json.
func (f *Freeze) Name() string { return file("freeze", f.Endpoint, f.Variant) }

// KeptName is what the file of an earlier run is called once a new run has taken its name: …-<run_id>.json.
func KeptName(name, runID string) string { return stem(name) + "-" + runID + ".json" }

// RequestLogName is the name of the request log beside the artifact called name.
func RequestLogName(name string) string { return stem(name) + ".requests.jsonl.gz" }

func stem(name string) string { return strings.TrimSuffix(name, ".json") }

func file(parts ...string) string {
	for i, p := range parts {
		parts[i] = word(p)
	}
	return strings.Join(parts, "-") + ".json"
}

// word makes s safe inside a file name: what is no letter, digit, dot, - or _ becomes -, a leading dot too, and 64 bytes
// are kept.
func word(s string) string {
	b := []byte(s[:min(64, len(s))])
	for i, c := range b {
		if plain := plainToken(string(c)); !plain && (c != '.' || i == 0) {
			b[i] = '-'
		}
	}
	if len(b) == 0 {
		return "unknown"
	}
	return string(b)
}
