package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/spf13/cobra"

	"loadline/internal/audit"
	"loadline/internal/awsfleet"
	"loadline/internal/command"
	"loadline/internal/exit"
	"loadline/internal/report"
)

const statusExample = `  speech-infra status
  speech-infra status kokoro-82m --json`

// state is what runs of one model.
type state struct {
	Model      string              `json:"model"`
	Deployed   audit.Deployed      `json:"deployed"`
	Alarms     []alarmState        `json:"alarm_states"`
	Activities []awsfleet.Activity `json:"activities"`
}

// alarmState is what an alarm says now.
type alarmState struct {
	Name  string    `json:"name"`
	State string    `json:"state"`
	Since time.Time `json:"since"`
}

func (a *app) statusCommand() *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use: "status [MODEL…]", Short: "what runs now: endpoint, counts, scaling, alarms, last activities; reads only", Example: statusExample,
		Long: "status reads the account. Exit code 1 where an endpoint is not there or not in service, 3 where something could not be read.",
		RunE: func(cmd *cobra.Command, args []string) error { return a.status(cmd.Context(), &f, args) },
	}
	f.add(cmd)
	cmd.Flags().StringVar(&f.endpointURL, "endpoint-url", "", "a local endpoint (sagemaker-local) instead of AWS")
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON")
	return cmd
}

// aws is the SDK's configuration; what it took upon itself is said on stderr.
func (a *app) aws(ctx context.Context, f *flags) (aws.Config, error) {
	cfg, notes, err := awsfleet.Load(ctx, awsfleet.Config{Region: f.region, EndpointURL: f.endpointURL})
	for _, note := range notes {
		fmt.Fprintln(a.stderr, note)
	}
	return cfg, err
}

func (a *app) status(ctx context.Context, f *flags, args []string) error {
	c, err := f.choose(args, true)
	if err != nil {
		return err
	}
	cfg, err := a.aws(ctx, f)
	if err != nil {
		return err
	}
	reader := awsfleet.NewAuditor(cfg)
	states, errs := []state{}, []error{}
	for _, m := range c.models {
		live := state{Model: m.Name}
		fmt.Fprintf(a.stderr, "reading endpoint %s …\n", m.Endpoint)
		if live.Deployed, err = reader.Endpoint(ctx, m.Endpoint, m.Variant); err != nil {
			return exit.CannotTell(err)
		}
		for _, t := range live.Deployed.Targets {
			_, variant, _ := strings.Cut(t.Resource, "/variant/")
			acts, err := reader.Activities(ctx, m.Endpoint, variant, 5)
			if err != nil {
				live.Deployed.Unread = append(live.Deployed.Unread, audit.Unread{What: "activities", Why: err.Error()})
			}
			live.Activities = append(live.Activities, acts...)
		}
		for _, x := range live.Deployed.Alarms {
			live.Alarms = append(live.Alarms, alarmState{x.Name, x.State, x.Since})
		}
		states = append(states, live)
		if len(live.Deployed.Unread) > 0 {
			errs = append(errs, exit.CannotTell(exit.Said))
		}
		if live.Deployed.Missing || live.Deployed.Status != "" && live.Deployed.Status != "InService" {
			errs = append(errs, exit.Refuse(exit.Said))
		}
	}
	if f.json {
		if err := command.JSON(a.stdout, states); err != nil {
			return err
		}
	} else {
		now := time.Now()
		for _, s := range states {
			fmt.Fprint(a.stdout, s.text(now))
		}
		if len(c.models) > 0 {
			fmt.Fprintf(a.stdout, "next: tts-bench drift --model %s\n", c.models[0].Name)
		}
	}
	return errors.Join(errs...)
}

func (s state) text(now time.Time) string {
	var b strings.Builder
	d := s.Deployed
	switch {
	case d.Missing:
		fmt.Fprintf(&b, "%s: %s is not deployed\n", s.Model, d.Endpoint)
	case d.Status == "":
		fmt.Fprintf(&b, "%s: %s could not be read\n", s.Model, d.Endpoint)
	default:
		fmt.Fprintf(&b, "%s: %s is %s", s.Model, d.Endpoint, d.Status)
		if d.Reason != "" {
			fmt.Fprintf(&b, ": %s", d.Reason)
		}
		fmt.Fprintf(&b, ", changed %s ago\n", now.Sub(d.Modified).Round(time.Second))
	}
	for _, v := range d.Variants {
		bound := "unknown"
		if v.QueueBound != nil {
			bound = fmt.Sprint(*v.QueueBound)
		}
		metrics := ""
		if v.Enhanced {
			metrics = fmt.Sprintf(", metrics every %d s", v.MetricsPeriod)
		}
		fmt.Fprintf(&b, "  variant %s: %d of %d instances of %s, image %.12s, queue bound %s, routing %s%s\n", v.Name, v.Current, v.Desired, v.InstanceType, v.ImageDigest, bound, v.Routing, metrics)
	}
	if len(d.Targets) == 0 && !d.Missing {
		b.WriteString("  scaling: none\n")
	}
	for _, t := range d.Targets {
		fmt.Fprintf(&b, "  scaling: %s, %d to %d instances%s\n", t.Resource, t.Min, t.Max, suspended(t))
		for _, p := range d.Policies {
			if p.Resource == t.Resource {
				fmt.Fprintf(&b, "    policy %s (%s)\n", p.Name, p.Type)
			}
		}
	}
	if len(d.Alarms) > 0 {
		var rows [][]string
		for _, x := range d.Alarms {
			since := ""
			if !x.Since.IsZero() {
				since = "for " + now.Sub(x.Since).Round(time.Second).String()
			}
			rows = append(rows, []string{"  alarm " + x.Name, x.State, since})
		}
		for line := range strings.Lines(report.Table([]string{"", "<", "<"}, rows)) {
			if strings.TrimSpace(line) != "" {
				b.WriteString(line)
			}
		}
	}
	for _, x := range s.Activities {
		fmt.Fprintf(&b, "  %s %s: %s", x.At.UTC().Format(time.DateTime), x.Status, x.What)
		if x.Failed != "" {
			fmt.Fprintf(&b, " (%s)", x.Failed)
		}
		b.WriteString("\n")
	}
	for _, u := range d.Unread {
		fmt.Fprintf(&b, "  ---- %s could not be read: %s\n", u.What, u.Why)
	}
	return b.String()
}

func suspended(t audit.Target) string {
	var what []string
	if t.Out {
		what = append(what, "out")
	}
	if t.In {
		what = append(what, "in")
	}
	if t.Sched {
		what = append(what, "schedules")
	}
	if len(what) == 0 {
		return ""
	}
	return ", suspended: " + strings.Join(what, ", ")
}
