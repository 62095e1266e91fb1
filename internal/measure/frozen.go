package measure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"loadline/internal/artifact"
	"loadline/internal/exit"
)

// restoreLimit bounds putting an endpoint back: longer than any update of an endpoint that still moves.
const restoreLimit = 35 * time.Minute

// Fleet is one variant that can be frozen and put back.
type Fleet interface {
	// Freeze suspends scaling, pins the variant to a count, and reads back that it holds it.
	Freeze(ctx context.Context, rec artifact.Freeze, pin int) error
	// Restore puts back what rec says, whatever of it is still changed, and reads back that it is. It may be repeated.
	Restore(ctx context.Context, rec artifact.Freeze) error
}

// Records keeps the freeze record of one variant, so that it outlives this process.
type Records interface {
	// SaveFreeze has made rec durable when it returns.
	SaveFreeze(rec artifact.Freeze) error
	DropFreeze() error
}

// Frozen runs body while the variant is frozen at pin instances. The record is kept before the first change and dropped
// after a verified restore. The variant is put back on every way out: body's end, its error, its panic, a freeze that
// failed half-way, the end of ctx; the restore has a time of its own and does not end with ctx.
func Frozen(ctx context.Context, fleet Fleet, records Records, rec artifact.Freeze, pin int, body func(context.Context) error) (err error) {
	if err := records.SaveFreeze(rec); err != nil {
		return fmt.Errorf("keep the freeze record: %w: nothing was changed", err)
	}
	defer func() {
		fault := recover()
		err = errors.Join(err, restore(ctx, fleet, records, rec))
		if fault != nil {
			panic(fault)
		}
	}()
	if err := fleet.Freeze(ctx, rec, pin); err != nil {
		return interrupted(ctx, fmt.Errorf("freeze: %w", err))
	}
	return body(ctx)
}

// interrupted is err, or the end of ctx where that is behind it.
func interrupted(ctx context.Context, err error) error {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, context.Canceled):
		return exit.CannotTell(fmt.Errorf("interrupted: %w", cause))
	case errors.Is(err, ErrSpent):
		return exit.CannotTell(err)
	}
	return err
}

func restore(ctx context.Context, fleet Fleet, records Records, rec artifact.Freeze) error {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), restoreLimit, fmt.Errorf("not put back within %s", restoreLimit))
	defer cancel()
	if err := fleet.Restore(ctx, rec); err != nil {
		return exit.Refuse(fmt.Errorf("endpoint %s is NOT put back: %w\nthe freeze record is kept; run: tts-bench thaw --endpoint %s --variant %s",
			rec.Endpoint, err, rec.Endpoint, rec.Variant))
	}
	if err := records.DropFreeze(); err != nil {
		return exit.Refuse(fmt.Errorf("endpoint %s is put back, but its freeze record could not be removed, and the next run will refuse: %w", rec.Endpoint, err))
	}
	return nil
}
