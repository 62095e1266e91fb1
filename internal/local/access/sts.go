package access

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

// STS says who is calling: always the same user, unless it has taken a role.
func (a *Access) STS() service.Service {
	return service.Service{Target: "AWSSecurityTokenServiceV20110615", Name: "sts", Version: "2011-06-15", Namespace: "https://sts.amazonaws.com/doc/2011-06-15/", Operations: service.Operations{
		"GetCallerIdentity": service.Op(a.getCallerIdentity),
		"AssumeRole":        service.Op(a.assumeRole),
	}}
}

type callerOut struct{ UserId, Account, Arn string }

func (a *Access) getCallerIdentity(context.Context, *service.Nothing) (*callerOut, error) {
	return &callerOut{"AIDALOCAL", a.cfg.Account.ID, a.cfg.Account.User()}, nil
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
func (a *Access) assumeRole(_ context.Context, in *assumeIn) (*assumeOut, error) {
	_, role, ok := strings.Cut(service.Or(in.RoleArn, ""), ":role/")
	session := service.Or(in.RoleSessionName, "")
	if !ok || session == "" {
		return nil, wire.Refuse(wire.ValidationError, "AssumeRole needs a RoleArn and a RoleSessionName.")
	}
	out := &assumeOut{Credentials: keys{accessKey, secretKey, "local", wire.At(a.cfg.Now().Add(time.Duration(service.Or(in.DurationSeconds, 3600)) * time.Second))}}
	out.AssumedRoleUser.AssumedRoleId = "AROALOCAL:" + session
	out.AssumedRoleUser.Arn = fmt.Sprintf("arn:aws:sts::%s:assumed-role/%s/%s", a.cfg.Account.ID, role, session)
	return out, nil
}
