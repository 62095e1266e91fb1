package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/mattn/go-isatty"
	"golang.org/x/term"

	"loadline/internal/artifact"
	"loadline/internal/awsfleet"
	"loadline/internal/command"
	"loadline/internal/exit"
	"loadline/internal/report"
	"loadline/internal/store"
)

// records is store.Hold as measure wants it.
type records struct{ hold *store.Hold }

func (r records) SaveFreeze(rec artifact.Freeze) error { return r.hold.Write(&rec) }
func (r records) DropFreeze() error                    { return r.hold.Remove() }

// variant opens a variant whose waits are told on live.
func (a *app) variant(ctx context.Context, cfg aws.Config, endpoint, name string, live *report.Live) (*awsfleet.Variant, error) {
	live.Show(time.Now(), "finding endpoint "+endpoint)
	v, err := awsfleet.Open(ctx, cfg, endpoint, name)
	if err != nil {
		return nil, err
	}
	v.Say = func(line string) { live.Show(time.Now(), line) }
	v.Note = live.Note
	return v, nil
}

// claim finds the variant, names it in the target, and takes it for this process: refused while an earlier run has left
// it frozen. The caller releases the hold.
func (a *app) claim(ctx context.Context, cfg aws.Config, to *target, stateDir string, live *report.Live) (*awsfleet.Variant, *store.Hold, error) {
	v, err := a.variant(ctx, cfg, to.Endpoint, to.Variant, live)
	if err != nil {
		return nil, nil, err
	}
	to.Variant = v.Name()
	hold, err := a.lock(stateDir, to.Endpoint, v.Name())
	if err != nil {
		return nil, nil, err
	}
	if err := unclaimed(hold); err != nil {
		hold.Release()
		return nil, nil, err
	}
	live.Show(time.Now(), "reading endpoint "+to.Endpoint)
	return v, hold, nil
}

// lock takes the variant for this process.
func (a *app) lock(dir, endpoint, variant string) (*store.Hold, error) {
	state, err := a.state(dir)
	if err != nil {
		return nil, err
	}
	hold, err := state.Lock(endpoint, variant, owner())
	var held *store.HeldError
	if errors.As(err, &held) {
		return nil, exit.Refuse(err)
	}
	return hold, err
}

// state opens the folder of freeze records.
func (a *app) state(dir string) (*store.State, error) {
	dir, err := a.stateDir(dir)
	if err != nil {
		return nil, err
	}
	return store.OpenState(dir)
}

// stateDir is where freeze records and saved scaling lie: dir, or where the user's programs keep what outlives them.
func (a *app) stateDir(dir string) (string, error) {
	return command.StateDir(a.env, dir, "freeze records go")
}

// unclaimed refuses a variant that an earlier run has left frozen.
func unclaimed(hold *store.Hold) error {
	rec, err := hold.Record()
	if err != nil {
		return exit.CannotTell(err)
	}
	if rec == nil {
		return nil
	}
	return exit.Refuse(fmt.Errorf("run %s (%s, %s) froze endpoint %s and did not put it back: run tts-bench thaw --endpoint %s --variant %s first",
		rec.RunID, rec.Command, rec.CreatedAt.Format(time.DateTime), rec.Endpoint, rec.Endpoint, rec.Variant))
}

func owner() string {
	name := "?"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "?"
	}
	return name + "@" + host + " " + strconv.Itoa(os.Getpid())
}

// agree asks the owner, who has already agreed when yes.
func (a *app) agree(ctx context.Context, endpoint string, ask []string, yes bool) error {
	list := ""
	for _, line := range ask {
		list += "\n  " + line
	}
	if yes {
		fmt.Fprintf(a.stderr, "endpoint %s, agreed to with --yes:%s\n", endpoint, list)
		return nil
	}
	return command.Agree(ctx, a.stdin, a.stderr, fmt.Sprintf("endpoint %s:%s\n", endpoint, list), fmt.Errorf("endpoint %s: this needs your consent:%s\n--yes gives it", endpoint, list))
}

// live is the line of progress on stderr.
func (a *app) live() *report.Live {
	f, ok := a.stderr.(*os.File)
	tty := ok && isatty.IsTerminal(f.Fd()) && a.env["TERM"] != "dumb"
	live := report.NewLive(a.stderr, tty, 80)
	if tty {
		live.Size = func() (columns, rows int) {
			columns, rows, _ = term.GetSize(int(f.Fd())) // zeros where it cannot be told
			return columns, rows
		}
	}
	live.Colour = a.env["NO_COLOR"] == ""
	return live
}
