package measure

import (
	"context"
	"fmt"

	"loadline/internal/artifact"
	"loadline/internal/exit"
	"loadline/internal/freeze"
)

// Thawable is one variant that thaw can put back with or without a record.
type Thawable interface {
	Fleet
	State(ctx context.Context) (freeze.Variant, error)
	// Activate clears every suspension and, when desired is not 0, sets the count.
	Activate(ctx context.Context, desired int) error
	// Take makes the copies of an inference component what is read and put back; "": instances.
	Take(component string)
}

// Thaw puts a variant back and says what it did. kept is the record of this machine, nil for none; then the tag of the
// endpoint is used; with neither, every suspension is cleared and the count is set to desired, left alone when that is 0.
// Doing it twice does no harm. The record is dropped after a verified restore.
func Thaw(ctx context.Context, v Thawable, records Records, kept *artifact.Freeze, desired int) (did string, err error) {
	s, err := v.State(ctx)
	if err != nil {
		return "", err
	}
	rec, from := kept, "the freeze record"
	if tag, tagged := s.Tags[freeze.TagKey]; rec == nil && tagged {
		byTag, err := freeze.ParseTag(tag)
		if err != nil {
			return "", exit.CannotTell(fmt.Errorf("endpoint %s: %w: --restore-capacity --desired N puts it back without it", s.Endpoint, err))
		}
		if byTag.Variant == "" || byTag.Variant == s.Name {
			byTag.Region, byTag.Endpoint, byTag.Variant = s.Region, s.Endpoint, s.Name
			rec, from = &byTag, "the tag "+freeze.TagKey
		}
	}

	if rec != nil && rec.Component != s.Component {
		v.Take(rec.Component)
		if s, err = v.State(ctx); err != nil {
			return "", err
		}
	}
	if rec != nil {
		if desired != 0 && desired != rec.Desired {
			return "", exit.Misuse(fmt.Errorf("%s says that the count was %d: leave --restore-capacity out", from, rec.Desired))
		}
		before := freeze.Still(*rec, s)
		if err := restore(ctx, v, records, *rec); err != nil {
			return "", err
		}
		if before == nil {
			return fmt.Sprintf("nothing was changed any more: %s is removed", from), nil
		}
		return fmt.Sprintf("put back from %s: desired count %d, scaling %s", from, rec.Desired, scaling(*rec)), nil
	}

	suspended := s.Target != nil && s.Target.Suspended != freeze.Flags{}
	if !suspended && (desired == 0 || desired == s.Desired) {
		return "no freeze record, and nothing is suspended: nothing to do", nil
	}
	if err := v.Activate(ctx, desired); err != nil {
		return "", exit.Refuse(fmt.Errorf("thaw: %w", err))
	}
	did = "no freeze record: "
	if suspended {
		did += s.Target.Suspended.String() + " is active again"
	}
	switch {
	case desired != 0 && suspended:
		did += fmt.Sprintf(", and the count is set from %d to %d", s.Desired, desired)
	case desired != 0:
		did += fmt.Sprintf("the count is set from %d to %d", s.Desired, desired)
	default:
		did += fmt.Sprintf("; the count is left at %d (--restore-capacity --desired N sets it)", s.Desired)
	}
	return did, nil
}

func scaling(rec artifact.Freeze) string {
	if !rec.HadTarget {
		return "none"
	}
	return fmt.Sprintf("%s, %d to %d", freeze.Before(rec), rec.Min, rec.Max)
}
