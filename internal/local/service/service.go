// Package service is what the services of a local account have in common: a table of operations each, one URL at which
// AWS's protocols find them, and the pages, tags and ARNs that all of them know.
//
// It decides which operation of which service a request means, by which protocol it is answered, and what an answer with
// an error looks like. Who may call is Front.Admit's to say, what an operation does is the service's; how structures
// become bytes is package wire's.
//
//	type clocks struct{ now func() time.Time }
//	func (c *clocks) tell(context.Context, *service.Nothing) (*timeOut, error) { return &timeOut{c.now()}, nil }
//
//	s := service.Service{Target: "Clocks_20261130", Name: "clocks", Operations: service.Operations{"TellTime": service.Op(c.tell)}}
//	http.ListenAndServe("127.0.0.1:0", &service.Front{Services: []service.Service{s}, Admit: admit, Absent: absent, Log: log})
package service

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"loadline/internal/wire"
)

// Operation is one operation of a service, whatever the protocol: decode fills its input.
type Operation func(ctx context.Context, decode func(any) error) (any, error)

// Operations of a service by their names.
type Operations map[string]Operation

// Op makes an operation of a function of its input. An input that cannot be decoded is refused before it.
func Op[In, Out any](f func(context.Context, *In) (*Out, error)) Operation {
	return func(ctx context.Context, decode func(any) error) (any, error) {
		in := new(In)
		if err := decode(in); err != nil {
			return nil, wire.Refuse(wire.Serialization, "%v", err)
		}
		return f(ctx, in)
	}
}

// Nothing is an input or an output without members.
type Nothing struct{}

// Service is a table of operations, and how they are called.
type Service struct {
	Target     string // of X-Amz-Target, or of the path
	Name       string // in permissions: Name:Operation
	CBOR       bool   // it speaks RPC v2 over CBOR too
	Version    string // of the query protocol; "": it does not speak it
	Namespace  string // of its XML
	Operations Operations
}

// Account is whose resources they are.
type Account struct{ Region, ID string }

// ARN names a resource of a service in the account's region.
func (a Account) ARN(service, resource string) string {
	return fmt.Sprintf("arn:aws:%s:%s:%s:%s", service, a.Region, a.ID, resource)
}

// IAM names a resource of IAM, which has no region: user/NAME, role/PATH/NAME.
func (a Account) IAM(resource string) string {
	return fmt.Sprintf("arn:aws:iam::%s:%s", a.ID, resource)
}

// User is the ARN of the one caller that the account has.
func (a Account) User() string { return a.IAM("user/local") }

// Or is what p points to, or otherwise where it is nil: a member of a request that was not given.
func Or[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

// Rand is a random source of its own for each cause.
func Rand(seed uint64, cause string) *rand.Rand { return rand.New(rand.NewPCG(seed, Hash(cause))) }

// Hash is a number that a name always has: what ids and random sources are made of.
func Hash(name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // a hash takes everything
	return h.Sum64()
}

// StampOf is a time on the wire that is left out where there is none.
func StampOf(t time.Time) *wire.Stamp {
	if t.IsZero() {
		return nil
	}
	s := wire.At(t)
	return &s
}
