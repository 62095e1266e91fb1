package cloudwatch

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

// Dashboard is kept as it was put; nothing draws it.
type Dashboard struct {
	Name, Body string
	Modified   time.Time
}

// Dashboards are what there is, by name.
func (c *CloudWatch) Dashboards() []Dashboard {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []Dashboard
	for _, name := range slices.Sorted(maps.Keys(c.dashboards)) {
		out = append(out, *c.dashboards[name])
	}
	return out
}

// Restore adds what Dashboards gave.
func (c *CloudWatch) Restore(dashboards []Dashboard) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range dashboards {
		c.dashboards[d.Name] = &d
	}
}

const mostDashboardNames = 100

var dashboardForm = regexp.MustCompile(`^[A-Za-z0-9\-_]{1,255}$`)

func (c *CloudWatch) dashboardARN(name string) string {
	return "arn:aws:cloudwatch::" + c.account.ID + ":dashboard/" + name
}

type dashboardIn struct{ DashboardName, DashboardBody *string }

type putDashboardOut struct{ DashboardValidationMessages []service.Nothing }

func (c *CloudWatch) putDashboard(_ context.Context, in *dashboardIn) (*putDashboardOut, error) {
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
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dashboards[name] = &Dashboard{name, body, c.now()}
	return &putDashboardOut{[]service.Nothing{}}, nil
}

type getDashboardOut struct{ DashboardArn, DashboardBody, DashboardName string }

func (c *CloudWatch) getDashboard(_ context.Context, in *dashboardIn) (*getDashboardOut, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.dashboards[service.Or(in.DashboardName, "")]
	if d == nil {
		return nil, noDashboard(service.Or(in.DashboardName, ""))
	}
	return &getDashboardOut{c.dashboardARN(d.Name), d.Body, d.Name}, nil
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

func (c *CloudWatch) listDashboards(_ context.Context, in *listDashboardsIn) (*listDashboardsOut, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := []dashboardEntry{}
	for _, name := range slices.Sorted(maps.Keys(c.dashboards)) {
		if d := c.dashboards[name]; strings.HasPrefix(name, service.Or(in.DashboardNamePrefix, "")) {
			all = append(all, dashboardEntry{name, c.dashboardARN(name), wire.At(d.Modified), len(d.Body)})
		}
	}
	page, next, err := service.Page(all, nil, in.NextToken, mostDashboardNames, mostDashboardNames, wire.CloudwatchNextToken)
	return &listDashboardsOut{page, next}, err
}

type deleteDashboardsIn struct{ DashboardNames []string }

// deleteDashboards deletes all of them or, where one does not exist, none.
func (c *CloudWatch) deleteDashboards(_ context.Context, in *deleteDashboardsIn) (*service.Nothing, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range in.DashboardNames {
		if c.dashboards[name] == nil {
			return nil, noDashboard(name)
		}
	}
	for _, name := range in.DashboardNames {
		delete(c.dashboards, name)
	}
	return &service.Nothing{}, nil
}
