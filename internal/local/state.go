package local

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"loadline/internal/autoscale"
	"loadline/internal/local/access"
	"loadline/internal/local/cloudwatch"
	"loadline/internal/local/logs"
	"loadline/internal/local/sagemaker"
)

// What survives a restart: what the account was told. Its metrics, its activities and the instances themselves do not; the
// endpoints come back with as many as they were meant to have, at once. An endpoint that has failed or is being deleted
// does not come back.

const (
	stateSchema = "loadline/account/1"
	saveEvery   = time.Second
)

type savedAccount struct {
	Schema string
	sagemaker.Saved
	Dashboards []cloudwatch.Dashboard
	Roles      []access.Role
	Policies   []access.Policy
	Groups     []logs.Group
	Tags       map[string]map[string]string
	Scaling    autoscale.Saved
}

// state is the account as it is saved.
func (l *Local) state() ([]byte, error) {
	lock := l.platform.Lock()
	lock.Lock()
	defer lock.Unlock()
	s := savedAccount{Schema: stateSchema, Saved: l.platform.Save(), Tags: l.tags.All(), Scaling: l.platform.Scaler().Save()}
	s.Roles, s.Policies = l.access.Identities()
	s.Dashboards, s.Groups = l.watch.Dashboards(), l.logs.Save()
	return json.Marshal(s)
}

// restore makes the account what it was when it was saved; what its endpoints need to be in service first is in resume.
func (l *Local) restore(saved []byte) (*savedAccount, error) {
	s := &savedAccount{}
	if err := json.Unmarshal(saved, s); err != nil {
		return nil, fmt.Errorf("it is no state of an account: %w", err)
	}
	if s.Schema != stateSchema {
		return nil, fmt.Errorf("its schema is %q, not %q: another version wrote it", s.Schema, stateSchema)
	}
	for arn, tags := range s.Tags {
		l.tags.Set(arn, tags)
	}
	l.watch.Restore(s.Dashboards)
	l.access.Restore(s.Roles, s.Policies)
	l.logs.Restore(s.Groups)
	if err := l.platform.Restore(s.Saved); err != nil {
		return nil, err
	}
	return s, nil
}

// resume restores what stands on endpoints that are in service.
func (l *Local) resume(ctx context.Context, s *savedAccount) error {
	if err := l.platform.Resume(ctx, s.Saved); err != nil {
		return err
	}
	for i := range s.Scaling.Scheduled {
		a := &s.Scaling.Scheduled[i]
		if a.Timezone == "" {
			continue
		}
		var err error
		if a.Location, err = time.LoadLocation(a.Timezone); err != nil {
			return fmt.Errorf("scheduled action %s: %w", a.Name, err)
		}
	}
	lock := l.platform.Lock()
	lock.Lock()
	defer lock.Unlock()
	if err := l.platform.Scaler().Restore(l.now(), s.Scaling); err != nil {
		return fmt.Errorf("scaling: %w", err)
	}
	return nil
}

// keep saves the account when it has changed, until ctx ends.
func (l *Local) keep(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(saveEvery):
			l.save()
		}
	}
}

// save hands the account's state to Config.Save, unless it is what it was.
func (l *Local) save() {
	b, err := l.state()
	if err == nil && !bytes.Equal(b, l.saved) {
		if err = l.cfg.Save(b); err == nil {
			l.saved = b
		}
	}
	if err != nil {
		l.log.Printf("save the account's state: %v", err)
	}
}
