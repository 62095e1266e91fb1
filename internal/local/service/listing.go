package service

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"loadline/internal/wire"
)

// Page is the page of a listing that a token names, and the token of the next, "" behind the last. limit is what the
// caller asks for, usual what it gets unasked, at most most; badToken is the code of a token that is none.
func Page[T any](all []T, limit *int, token *string, usual, most int, badToken string) (page []T, next string, err error) {
	n, from := Or(limit, usual), 0
	if n < 1 || n > most {
		return nil, "", wire.Refuse(wire.ValidationException, "1 validation error detected: Value '%d' at 'maxResults' failed to satisfy constraint: Member must have value between 1 and %d", n, most)
	}
	if token != nil {
		if from, err = strconv.Atoi(strings.TrimPrefix(*token, "after-")); err != nil || from < 0 || from > len(all) {
			return nil, "", wire.Refuse(badToken, "The NextToken %q is not valid.", *token)
		}
	}
	if to := from + n; to < len(all) {
		return all[from:to], "after-" + strconv.Itoa(to), nil
	}
	return all[from:], "", nil
}

// Tag of a resource.
type Tag struct{ Key, Value string }

// SortedTags is tags on the wire, in order.
func SortedTags(m map[string]string) []Tag {
	out := []Tag{}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, Tag{k, m[k]})
	}
	return out
}

// AddTags adds tags to others.
func AddTags(to map[string]string, tags []Tag) {
	for _, t := range tags {
		to[t.Key] = t.Value
	}
}

// Tags is the tags of an account's resources by their ARNs, whichever service they are of. It is safe for concurrent use;
// that a resource exists is its service's to know.
type Tags struct {
	mu sync.Mutex
	of map[string]map[string]string
}

// NewTags is an account without tags.
func NewTags() *Tags { return &Tags{of: map[string]map[string]string{}} }

// Of a resource: a copy.
func (t *Tags) Of(arn string) map[string]string {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := map[string]string{}
	maps.Copy(out, t.of[arn])
	return out
}

// Set replaces a resource's tags.
func (t *Tags) Set(arn string, tags map[string]string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of[arn] = tags
}

// Add adds to a resource's tags.
func (t *Tags) Add(arn string, tags []Tag) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of[arn] == nil {
		t.of[arn] = map[string]string{}
	}
	AddTags(t.of[arn], tags)
}

// Remove takes the tags of some keys from a resource.
func (t *Tags) Remove(arn string, keys []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range keys {
		delete(t.of[arn], k)
	}
}

// Forget is for a resource that is gone.
func (t *Tags) Forget(arn string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.of, arn)
}

// All tags by ARN: a copy.
func (t *Tags) All() map[string]map[string]string {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := map[string]map[string]string{}
	for arn, tags := range t.of {
		out[arn] = maps.Clone(tags)
	}
	return out
}
