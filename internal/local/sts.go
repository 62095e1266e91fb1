package local

import (
	"context"
	"fmt"
	"strings"
	"time"

	"loadline/internal/wire"
)

// The only keys that a signature is checked with.
const (
	accessKey = "AKIDEXAMPLE"
	secretKey = "secret"
)

// tokens is STS: it says who is calling: always the same user, unless it has taken a role.
var tokens = service{"AWSSecurityTokenServiceV20110615", map[string]operation{
	"GetCallerIdentity": op((*Local).getCallerIdentity),
	"AssumeRole":        op((*Local).assumeRole),
}}

type callerOut struct{ UserId, Account, Arn string }

func (l *Local) user() string { return fmt.Sprintf("arn:aws:iam::%s:user/local", l.cfg.Account) }

func (l *Local) getCallerIdentity(context.Context, *nothing) (*callerOut, error) {
	return &callerOut{"AIDALOCAL", l.cfg.Account, l.user()}, nil
}

type assumeIn struct {
	RoleArn, RoleSessionName *string
	DurationSeconds          *int
}

type assumeOut struct {
	Credentials     keys
	AssumedRoleUser struct{ AssumedRoleId, Arn string }
}

type keys struct {
	AccessKeyId, SecretAccessKey, SessionToken string
	Expiration                                 wire.Stamp
}

// assumeRole hands out the keys that a signature is checked with anyway.
func (l *Local) assumeRole(_ context.Context, in *assumeIn) (*assumeOut, error) {
	_, role, ok := strings.Cut(deref(in.RoleArn, ""), ":role/")
	session := deref(in.RoleSessionName, "")
	if !ok || session == "" {
		return nil, wire.Refuse(wire.ValidationError, "AssumeRole needs a RoleArn and a RoleSessionName.")
	}
	out := &assumeOut{Credentials: keys{accessKey, secretKey, "local", wire.At(l.now().Add(time.Duration(deref(in.DurationSeconds, 3600)) * time.Second))}}
	out.AssumedRoleUser.AssumedRoleId = "AROALOCAL:" + session
	out.AssumedRoleUser.Arn = fmt.Sprintf("arn:aws:sts::%s:assumed-role/%s/%s", l.cfg.Account, role, session)
	return out, nil
}
