package local

import (
	"context"
	"fmt"
	"strings"
	"time"

	"loadline/internal/local/service"
	"loadline/internal/wire"
)

// The only keys that a signature is checked with.
const (
	accessKey = "AKIDEXAMPLE"
	secretKey = "secret"
)

// tokens is STS: it says who is calling: always the same user, unless it has taken a role.
func (l *Local) tokens() service.Service {
	return service.Service{Target: "AWSSecurityTokenServiceV20110615", Name: "sts", Version: "2011-06-15", Namespace: "https://sts.amazonaws.com/doc/2011-06-15/", Operations: service.Operations{
		"GetCallerIdentity": service.Op(l.getCallerIdentity),
		"AssumeRole":        service.Op(l.assumeRole),
	}}
}

type callerOut struct{ UserId, Account, Arn string }

func (l *Local) getCallerIdentity(context.Context, *service.Nothing) (*callerOut, error) {
	return &callerOut{"AIDALOCAL", l.cfg.Account, l.account.User()}, nil
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
	_, role, ok := strings.Cut(service.Or(in.RoleArn, ""), ":role/")
	session := service.Or(in.RoleSessionName, "")
	if !ok || session == "" {
		return nil, wire.Refuse(wire.ValidationError, "AssumeRole needs a RoleArn and a RoleSessionName.")
	}
	out := &assumeOut{Credentials: keys{accessKey, secretKey, "local", wire.At(l.now().Add(time.Duration(service.Or(in.DurationSeconds, 3600)) * time.Second))}}
	out.AssumedRoleUser.AssumedRoleId = "AROALOCAL:" + session
	out.AssumedRoleUser.Arn = fmt.Sprintf("arn:aws:sts::%s:assumed-role/%s/%s", l.cfg.Account, role, session)
	return out, nil
}
