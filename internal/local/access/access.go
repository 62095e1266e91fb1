// Package access is who may call a local account: signatures, what is forbidden, the identities of IAM and STS, and the
// calls that fail though nothing is wrong with them.
//
// It decides whether a call is let in; what the call does is its service's. Nothing is permitted by IAM's policies: what
// the one caller may not do is Config.Deny's.
//
//	a := access.New(access.Config{Account: account, Now: time.Now, Deny: []string{"iam:*"}, LinkedRole: true, Ended: ctx.Done})
//	front.Admit = a.Admit
//	front.Services = append(front.Services, a.IAM(), a.STS())
package access

import (
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"loadline/internal/local/service"
)

// Config of New.
type Config struct {
	Account          service.Account
	Now              func() time.Time
	VerifySignatures bool     // with the account's keys, AKIDEXAMPLE and secret
	Deny             []string // actions that the caller may not do, with * and ?
	LinkedRole       bool     // the role that Application Auto Scaling works under is there from the start
	Faults           Faults
	Rand             *rand.Rand             // of the faults; nil only where there are none
	Ended            func() <-chan struct{} // closed when calls are held no longer
}

// Access to an account. It is safe for concurrent use.
type Access struct {
	cfg     Config
	breaker breaker

	mu       sync.Mutex // guards all below
	roles    map[string]*Role
	policies map[string]*Policy // by ARN
}

// New is the access to an account.
func New(cfg Config) *Access {
	a := &Access{cfg: cfg, breaker: breaker{rng: cfg.Rand}, roles: map[string]*Role{}, policies: map[string]*Policy{}}
	if cfg.LinkedRole {
		a.linkRole()
	}
	return a
}

// Admit refuses a call that is not signed, is denied, or draws a fault; body is what came over the wire.
func (a *Access) Admit(r *http.Request, body []byte, action string) error {
	if err := a.verify(r, body); err != nil {
		return err
	}
	if err := a.permitted(action); err != nil {
		return err
	}
	return a.spoilt(r, action)
}

// Identities are the roles and the policies that there are.
func (a *Access) Identities() (roles []Role, policies []Policy) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(a.roles)) {
		r := *a.roles[name]
		r.Tags, r.Inline, r.Attached = maps.Clone(r.Tags), maps.Clone(r.Inline), maps.Clone(r.Attached)
		roles = append(roles, r)
	}
	for _, arn := range slices.Sorted(maps.Keys(a.policies)) {
		p := *a.policies[arn]
		p.Tags = maps.Clone(p.Tags)
		policies = append(policies, p)
	}
	return roles, policies
}

// Restore adds what Identities gave.
func (a *Access) Restore(roles []Role, policies []Policy) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range roles {
		own := a.addRole(r.Name, r.Path, r.Trust)
		own.About, own.Created, own.Session = r.About, r.Created, r.Session
		maps.Copy(own.Tags, r.Tags)
		maps.Copy(own.Inline, r.Inline)
		maps.Copy(own.Attached, r.Attached)
	}
	for _, p := range policies {
		a.policies[a.policyARN(p.Path, p.Name)] = &p
	}
}
