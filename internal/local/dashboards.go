package local

import (
	"context"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"loadline/internal/local/service"
	"loadline/internal/wire"
)

// dashboard is kept as it was put; nothing draws it.
type dashboard struct {
	name, body string
	modified   time.Time
}

const mostDashboardNames = 100

var dashboardForm = regexp.MustCompile(`^[A-Za-z0-9\-_]{1,255}$`)

func (l *Local) dashboardARN(name string) string {
	return "arn:aws:cloudwatch::" + l.cfg.Account + ":dashboard/" + name
}

type dashboardIn struct{ DashboardName, DashboardBody *string }

type putDashboardOut struct{ DashboardValidationMessages []service.Nothing }

func (l *Local) putDashboard(_ context.Context, in *dashboardIn) (*putDashboardOut, error) {
	name, body := service.Or(in.DashboardName, ""), service.Or(in.DashboardBody, "")
	var whole struct{ Widgets *[]json.RawMessage }
	switch err := json.Unmarshal([]byte(body), &whole); {
	case !dashboardForm.MatchString(name):
		return nil, wire.Refuse(wire.InvalidValue, "The value %q for parameter DashboardName is invalid: it has 1 to 255 letters, digits, hyphens and underscores.", name)
	case err != nil:
		return nil, wire.Refuse(wire.DashboardInvalid, "The field DashboardBody must be a valid JSON object: %v", err)
	case whole.Widgets == nil:
		return nil, wire.Refuse(wire.DashboardInvalid, `The dashboard body is invalid, there are 1 validation errors: [{"dataPath": "", "message": "Should have required property 'widgets'"}]`)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dashboards[name] = &dashboard{name, body, l.now()}
	return &putDashboardOut{[]service.Nothing{}}, nil
}

type getDashboardOut struct{ DashboardArn, DashboardBody, DashboardName string }

func (l *Local) getDashboard(_ context.Context, in *dashboardIn) (*getDashboardOut, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.dashboards[service.Or(in.DashboardName, "")]
	if d == nil {
		return nil, noDashboard(service.Or(in.DashboardName, ""))
	}
	return &getDashboardOut{l.dashboardARN(d.name), d.body, d.name}, nil
}

func noDashboard(name string) error {
	return wire.Refuse(wire.DashboardNotFound, "Dashboard %s does not exist", name)
}

type listDashboardsIn struct{ DashboardNamePrefix, NextToken *string }

type listDashboardsOut struct {
	DashboardEntries []dashboardEntry
	NextToken        string `json:",omitempty"`
}

type dashboardEntry struct {
	DashboardName, DashboardArn string
	LastModified                wire.Stamp
	Size                        int
}

func (l *Local) listDashboards(_ context.Context, in *listDashboardsIn) (*listDashboardsOut, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := []dashboardEntry{}
	for _, name := range slices.Sorted(maps.Keys(l.dashboards)) {
		if d := l.dashboards[name]; strings.HasPrefix(name, service.Or(in.DashboardNamePrefix, "")) {
			all = append(all, dashboardEntry{name, l.dashboardARN(name), wire.At(d.modified), len(d.body)})
		}
	}
	page, next, err := service.Page(all, nil, in.NextToken, mostDashboardNames, mostDashboardNames, wire.CloudwatchNextToken)
	return &listDashboardsOut{page, next}, err
}

type deleteDashboardsIn struct{ DashboardNames []string }

// deleteDashboards deletes all of them or, where one does not exist, none.
func (l *Local) deleteDashboards(_ context.Context, in *deleteDashboardsIn) (*service.Nothing, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range in.DashboardNames {
		if l.dashboards[name] == nil {
			return nil, noDashboard(name)
		}
	}
	for _, name := range in.DashboardNames {
		delete(l.dashboards, name)
	}
	return &service.Nothing{}, nil
}
