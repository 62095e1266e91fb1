package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"loadline/internal/artifact"
	"loadline/internal/load"
	"loadline/internal/measure"
	"loadline/internal/openloop"
	"loadline/internal/report"
	"loadline/internal/sample"
	"loadline/internal/store"
)

// What the commands that measure have in common.

// openLoop sends at given times, as measure asks for it.
func openLoop(c load.Config) measure.OpenLoop {
	return func(ctx context.Context, rung, seq int, at []time.Duration, observe func(sample.Request)) (openloop.Sent, error) {
		c := c
		c.Seq = seq
		sent, err := load.Open(ctx, c, rung, at, observe)
		return openloop.Sent{Client: sent.Client, Origin: sent.Origin, Planned: sent.Planned, Dropped: sent.Dropped, Peak: sent.Peak, Invalid: sent.Invalid}, err
	}
}

// connects keeps in a record's settings how the client resolves and connects, and says the first of it.
func connects(settings map[string]any, tr load.Transport) string {
	settings["connections"] = tr.Policy()
	first, _, _ := strings.Cut(tr.Policy(), "; ")
	return "connections: " + first + " (all of it: settings.connections of the record)"
}

// pollEvery is the pause between looks at an endpoint, where none is asked for.
func pollEvery(asked time.Duration, local bool) time.Duration {
	switch {
	case asked != 0:
		return asked
	case local:
		return 250 * time.Millisecond
	}
	return 10 * time.Second
}

// journal is store.Journal as measure wants it; nil files keep nothing.
type journal struct {
	files *store.Journal
	live  *report.Live
}

func (k journal) Save(doc *artifact.QMax, requests []sample.Request) error {
	return k.save(doc, requests)
}

// save keeps the requests and the record.
func (k journal) save(record any, requests []sample.Request) error {
	if k.files == nil {
		return nil
	}
	if requests != nil {
		if err := k.files.Rung(requests); err != nil {
			return err
		}
	}
	data, err := artifact.Encode(record)
	if err != nil {
		return err
	}
	return k.put(data)
}

// put keeps an encoded record.
func (k journal) put(data []byte) error {
	kept, err := k.files.Save(data)
	if kept != "" {
		k.live.Note("the file of an earlier run is kept as " + kept)
	}
	return err
}

// finishRun prints a record, as text or byte for byte, and saves it. Whatever else is said belongs on status. The error is
// why measuring stopped, with what went wrong here.
func (a *app) finishRun(record any, text string, asJSON bool, k journal, stopped error) (status io.Writer, err error) {
	data, err := artifact.Encode(record)
	if err != nil {
		return nil, errors.Join(stopped, err)
	}
	status = a.stdout
	if asJSON {
		status = a.stderr
		if _, err := a.stdout.Write(data); err != nil {
			return nil, errors.Join(stopped, fmt.Errorf("print the artifact: %w", err))
		}
	} else {
		fmt.Fprint(a.stdout, text)
	}
	if k.files != nil {
		if err := k.put(data); err != nil {
			return nil, errors.Join(stopped, err)
		}
		path := k.files.Path()
		fmt.Fprintf(status, "saved %s\nsaved %s\n", path, filepath.Join(filepath.Dir(path), k.files.LogName()))
	}
	return status, stopped
}
