package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"loadline/internal/artifact"
	"loadline/internal/awsfleet"
	"loadline/internal/exit"
	"loadline/internal/measure"
	"loadline/internal/store"
)

const thawExample = `  # after a run that was killed
  tts-bench thaw --endpoint speech-kokoro-82m

  # without a record: activate scaling and set the count
  tts-bench thaw --endpoint speech-kokoro-82m --restore-capacity --desired 3`

// thawFlags are the flags of thaw.
type thawFlags struct {
	endpoint, variant   string
	component           string
	region, endpointURL string
	stateDir            string
	restoreCapacity     bool
	desired             int
	json                bool
}

// thawed is what thaw did, for machines.
type thawed struct {
	Endpoint string `json:"endpoint"`
	Variant  string `json:"variant,omitempty"`
	Did      string `json:"did"`
}

func (a *app) thawCommand() *cobra.Command {
	var f thawFlags
	cmd := &cobra.Command{
		Use:   "thaw",
		Short: "put an endpoint back that a killed run left frozen",
		Long: `thaw restores scaling and the count of instances, or of copies, from the freeze record that a run wrote before its first change:
the file on this machine, else the endpoint's tag. Without either it activates scaling that is suspended. It reads
back what it did, and doing it twice does no harm.`,
		Example: thawExample,
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.thaw(cmd, f) },
	}
	fl := cmd.Flags()
	fl.SortFlags = false
	fl.StringVar(&f.endpoint, "endpoint", "", "SageMaker endpoint (required)")
	fl.StringVar(&f.variant, "variant", "", "its variant (default: the only one, or that of the only record)")
	fl.StringVar(&f.component, "component", "", "without a record: its inference component whose copies are put back (default: what the record or the tag names)")
	fl.StringVar(&f.region, "region", "", "AWS region (default: the record's, else the SDK's)")
	fl.StringVar(&f.endpointURL, "endpoint-url", "", "a local endpoint instead of AWS (default: the record's)")
	fl.StringVar(&f.stateDir, "state-dir", "", "where freeze records are kept (default: the user's state folder)")
	fl.BoolVar(&f.restoreCapacity, "restore-capacity", false, "without a record: also set the instance count, to --desired")
	fl.IntVar(&f.desired, "desired", 0, "with --restore-capacity: the count")
	fl.BoolVar(&f.json, "json", false, "print what was done as JSON")
	return cmd
}

func (a *app) thaw(cmd *cobra.Command, f thawFlags) error {
	set := cmd.Flags().Changed
	var bad []error
	if f.endpoint == "" {
		bad = append(bad, errors.New("--endpoint NAME is missing"))
	}
	if f.restoreCapacity != set("desired") {
		bad = append(bad, errors.New("--restore-capacity and --desired N belong together"))
	} else if f.restoreCapacity && f.desired < 1 {
		bad = append(bad, fmt.Errorf("--desired %d: at least 1", f.desired))
	}
	if len(bad) > 0 {
		return exit.Misuse(errors.Join(bad...))
	}
	ctx := cmd.Context()
	state, err := a.state(f.stateDir)
	if err != nil {
		return err
	}
	rec, err := recordOf(state, f)
	if err != nil {
		return err
	}
	if rec != nil { // it knows where its endpoint is
		f.variant = rec.Variant
		if f.region == "" {
			f.region = rec.Region
		}
		if f.endpointURL == "" {
			f.endpointURL = rec.URL
		}
	}
	cfg, err := a.aws(ctx, targetFlags{region: f.region, endpointURL: f.endpointURL})
	if err != nil {
		return err
	}
	live := a.live()
	defer live.Close()
	if rec != nil && rec.CloneOf != "" {
		return a.thawClone(ctx, cfg, live, f, rec)
	}
	v, err := a.variant(ctx, cfg, f.endpoint, f.variant, live)
	if errors.Is(err, awsfleet.ErrMissing) && rec != nil {
		hold, lockErr := a.lock(f.stateDir, rec.Endpoint, rec.Variant)
		if lockErr != nil {
			return lockErr
		}
		defer hold.Release()
		if err := hold.Remove(); err != nil {
			return err
		}
		live.Close()
		gone := fmt.Sprintf("endpoint %s no longer exists in %s: there is nothing to put back, its freeze record is removed", f.endpoint, cfg.Region)
		if !f.json {
			fmt.Fprintln(a.stdout, gone)
		}
		return a.did(f.json, thawed{rec.Endpoint, rec.Variant, gone})
	}
	if err != nil {
		return err
	}
	hold, err := a.lock(f.stateDir, f.endpoint, v.Name())
	if err != nil {
		return err
	}
	defer hold.Release()
	if rec, err = hold.Record(); err != nil {
		return exit.CannotTell(err)
	}
	did, err := measure.Thaw(ctx, v.Of(f.component), records{hold}, rec, f.desired)
	if errors.Is(err, awsfleet.ErrNoComponent) && (rec != nil || f.component == "") {
		if err = errors.Join(v.Untag(ctx), hold.Remove()); err == nil {
			did = "the inference component whose copies were pinned no longer exists: there is nothing to put back, its freeze record is removed"
		}
	}
	live.Close()
	if err != nil {
		return err
	}
	if !f.json {
		fmt.Fprintf(a.stdout, "%s/%s: %s\n", f.endpoint, v.Name(), did)
	}
	return a.did(f.json, thawed{f.endpoint, v.Name(), did})
}

// recordOf is the record of the endpoint that the flags mean, nil when there is none.
func recordOf(state *store.State, f thawFlags) (*artifact.Freeze, error) {
	all, err := state.Records()
	var found []*artifact.Freeze
	for _, r := range all {
		if r.Endpoint == f.endpoint && r.CloneOf != "" { // what was frozen on it goes with it
			return r, nil
		}
		if r.Endpoint == f.endpoint && (f.variant == "" || r.Variant == f.variant) {
			found = append(found, r)
		}
	}
	switch {
	case len(found) > 1:
		return nil, exit.Misuse(fmt.Errorf("endpoint %s has freeze records of several variants: name one with --variant", f.endpoint))
	case len(found) == 1:
		return found[0], nil
	case err != nil: // a damaged record may be the one that is meant
		return nil, exit.CannotTell(err)
	}
	return nil, nil
}
