package awsfleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/applicationautoscaling"
	aas "github.com/aws/aws-sdk-go-v2/service/applicationautoscaling/types"
	cw "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/aws/aws-sdk-go-v2/service/sagemaker"
	sm "github.com/aws/aws-sdk-go-v2/service/sagemaker/types"

	"loadline/internal/artifact"
	"loadline/internal/exit"
	"loadline/internal/freeze"
	"loadline/internal/measure"
)

// settleLimit bounds every wait for an endpoint to settle: what takes longer has met no capacity.
const settleLimit = 30 * time.Minute

// Freeze suspends scaling, pins the variant to pin instances, waits until it holds them, and reads back that all is so.
// rec, its state before, has been kept by then; it also goes on the endpoint as a tag where that is permitted.
func (v *Variant) Freeze(ctx context.Context, rec artifact.Freeze, pin int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, settleLimit, fmt.Errorf("%s did not settle at %d within %s", v.resource(), pin, settleLimit))
	defer cancel()
	v.tag(ctx, rec)
	if rec.HadTarget {
		v.Say("suspending its scaling")
		change := &freeze.Target{Suspended: freeze.All}
		if rec.Min > pin { // a count below the bounds may be moved back inside
			change.Min, change.Max = pin, max(pin, rec.Max)
		}
		if err := v.register(ctx, change); err != nil {
			return fmt.Errorf("suspend scaling of %s: %w", v.resource(), err)
		}
	}
	if err := v.setDesired(ctx, pin); err != nil {
		return fmt.Errorf("pin %s to %d: %w", v.resource(), pin, err)
	}
	s, err := v.settle(ctx, fmt.Sprintf("waiting for it to hold %d", pin), func(s freeze.Variant) bool {
		return s.Status == freeze.InService && s.Desired == pin && s.Current == pin
	})
	if err != nil {
		return fmt.Errorf("pin %s to %d: %w", v.resource(), pin, err)
	}
	if t := s.Target; t != nil && t.Suspended != freeze.All {
		return fmt.Errorf("suspend scaling of %s: the call succeeded and reads back as %s: is someone else changing it?", v.resource(), t.Suspended)
	}
	return nil
}

// Restore puts back what rec says, whatever of it is still changed, and reads back that it is. It asks for the count
// first and activates scaling at once, so that scaling is not off while instances start; where an alarm still fires, as it
// does after the load of a measurement, scaling waits until that is over, or the policies would undo the count.
func (v *Variant) Restore(ctx context.Context, rec artifact.Freeze) error {
	s, err := v.state(ctx)
	if err != nil {
		return err
	}
	var failed []error
	before := freeze.Target{Min: rec.Min, Max: rec.Max, Suspended: freeze.Before(rec)}
	changed := rec.HadTarget && s.Target != nil && *s.Target != before
	var firing []cw.MetricAlarm
	if changed && !before.Suspended.Out {
		if firing, err = v.firing(ctx); err != nil {
			v.Note(fmt.Sprintf("whether its policies would scale out at once could not be read: %v", err))
		}
	}
	if len(firing) > 0 && !s.Target.Suspended.Out {
		v.Say("suspending its scaling")
		if err := v.register(ctx, &freeze.Target{Suspended: freeze.All}); err != nil {
			failed = append(failed, fmt.Errorf("suspend scaling while an alarm fires: %w", err))
		}
	}
	if s.Desired != rec.Desired {
		v.Say(fmt.Sprintf("putting its count back to %d", rec.Desired))
		if err := v.setDesired(ctx, rec.Desired); err != nil {
			failed = append(failed, fmt.Errorf("put the count back to %d: %w", rec.Desired, err))
		}
	}
	v.calm(ctx, firing)
	switch {
	case rec.HadTarget && s.Target == nil:
		v.Note("its scalable target was deregistered by someone else in the meantime: it is left so")
	case changed:
		v.Say("putting its scaling back")
		change := &freeze.Target{Suspended: before.Suspended}
		if s.Target.Min != rec.Min || s.Target.Max != rec.Max {
			change = &before
		}
		if err := v.register(ctx, change); err != nil {
			failed = append(failed, fmt.Errorf("put scaling back: %w", err))
		}
	}
	if len(failed) > 0 {
		return errors.Join(failed...)
	}
	s, err = v.settle(ctx, "waiting for it to settle", func(s freeze.Variant) bool { return freeze.Still(rec, s) == nil })
	if err != nil {
		if left := freeze.Still(rec, s); left != nil {
			return fmt.Errorf("still changed: %s: %w", strings.Join(left, "; "), err)
		}
		return err
	}
	v.untag(ctx, s.ARN)
	return nil
}

// Activate clears every suspension and, with desired > 0, sets the count: thaw without a record.
func (v *Variant) Activate(ctx context.Context, desired int) error {
	s, err := v.state(ctx)
	if err != nil {
		return err
	}
	rec := freeze.Record(s)
	rec.Suspended = artifact.Freeze{}.Suspended
	if desired > 0 {
		rec.Desired = desired
	}
	return v.Restore(ctx, rec)
}

// register changes a target that exists: its suspension, and its bounds when t has a Max.
func (v *Variant) register(ctx context.Context, t *freeze.Target) error {
	in := &applicationautoscaling.RegisterScalableTargetInput{
		ServiceNamespace:  aas.ServiceNamespaceSagemaker,
		ScalableDimension: v.dimension(),
		ResourceId:        aws.String(v.resource()),
		SuspendedState: &aas.SuspendedState{
			DynamicScalingOutSuspended: &t.Suspended.Out,
			DynamicScalingInSuspended:  &t.Suspended.In,
			ScheduledScalingSuspended:  &t.Suspended.Sched,
		},
	}
	if t.Max > 0 {
		in.MinCapacity, in.MaxCapacity = aws.Int32(int32(t.Min)), aws.Int32(int32(t.Max))
	}
	_, err := v.scaling.RegisterScalableTarget(ctx, in)
	var gone *aas.ObjectNotFoundException
	if errors.As(err, &gone) { // deregistered since it was read: then there is nothing to suspend
		return nil
	}
	return cause(ctx, plain(err))
}

// setDesired asks for a count, waiting while another update is in progress: AWS takes one at a time.
func (v *Variant) setDesired(ctx context.Context, n int) error {
	_, err := v.Scale(ctx, n)
	return err
}

// Scale asks for a count, waiting while another update is in progress, and says when the call that was accepted was made. A
// refusal by the account's quota is ErrQuota.
func (v *Variant) Scale(ctx context.Context, n int) (at time.Time, err error) {
	b := backoff{next: v.Poll, most: 20 * v.Poll}
	for {
		_, desired, _, err := v.Count(ctx)
		if err != nil {
			return at, cause(ctx, err)
		}
		at = time.Now()
		if desired == n {
			return at, nil
		}
		err = v.ask(ctx, n)
		switch {
		case err == nil:
			return at, nil
		case is(err, "ResourceLimitExceeded", ""):
			return at, fmt.Errorf("%w: %w", measure.ErrQuota, plain(err))
		case !is(err, "ValidationException", "in-progress"):
			return at, cause(ctx, plain(err))
		}
		v.Say("another update of the endpoint is in progress: waiting for it")
		if err := b.pause(ctx); err != nil {
			return at, err
		}
	}
}

// ask asks once for a count of instances, or of copies.
func (v *Variant) ask(ctx context.Context, n int) error {
	if v.component != "" {
		_, err := v.sagemaker.UpdateInferenceComponentRuntimeConfig(ctx, &sagemaker.UpdateInferenceComponentRuntimeConfigInput{
			InferenceComponentName: &v.component, DesiredRuntimeConfig: &sm.InferenceComponentRuntimeConfig{CopyCount: aws.Int32(int32(n))}})
		return err
	}
	_, err := v.sagemaker.UpdateEndpointWeightsAndCapacities(ctx, &sagemaker.UpdateEndpointWeightsAndCapacitiesInput{
		EndpointName: &v.endpoint,
		DesiredWeightsAndCapacities: []sm.DesiredWeightAndCapacity{
			{VariantName: &v.name, DesiredInstanceCount: aws.Int32(int32(n))},
		},
	})
	return err
}

// Settle waits until the variant holds n instances and the endpoint is in service.
func (v *Variant) Settle(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, settleLimit, fmt.Errorf("%s did not settle at %d within %s", v.resource(), n, settleLimit))
	defer cancel()
	_, err := v.settle(ctx, fmt.Sprintf("waiting for it to hold %d", n), func(s freeze.Variant) bool {
		return s.Status == freeze.InService && s.Desired == n && s.Current == n
	})
	return err
}

// Look is the variant's status and counts, and why its last change failed, by one call.
func (v *Variant) Look(ctx context.Context) (measure.Look, error) {
	if v.component != "" {
		return v.copies(ctx)
	}
	out, err := v.describe(ctx)
	if err != nil {
		return measure.Look{}, err
	}
	pv, err := v.of(out)
	if err != nil {
		return measure.Look{}, err
	}
	look := measure.Look{Status: string(out.EndpointStatus), Reason: aws.ToString(out.FailureReason),
		Desired: int(aws.ToInt32(pv.DesiredInstanceCount)), Current: int(aws.ToInt32(pv.CurrentInstanceCount)),
		Modified: aws.ToTime(out.LastModifiedTime)}
	for _, s := range pv.VariantStatus {
		if m := aws.ToString(s.StatusMessage); m != "" {
			look.Reason = strings.TrimSpace(look.Reason + " " + m)
		}
	}
	return look, nil
}

// settle looks at the variant until it is as wanted, and returns the last look.
func (v *Variant) settle(ctx context.Context, saying string, wanted func(freeze.Variant) bool) (freeze.Variant, error) {
	b := backoff{next: v.Poll, most: 20 * v.Poll}
	var last freeze.Variant
	for {
		s, err := v.state(ctx)
		if err != nil {
			return last, cause(ctx, err)
		}
		last = s
		if wanted(s) {
			return s, nil
		}
		switch s.Status {
		case "Failed", "OutOfService", "UpdateRollbackFailed", "Deleting":
			return s, exit.Refuse(fmt.Errorf("%s is %s: it will not settle by itself", v.resource(), s.Status))
		}
		v.Say(fmt.Sprintf("%s: %s, desired %d, current %d", saying, s.Status, s.Desired, s.Current))
		if err := b.pause(ctx); err != nil {
			return s, err
		}
	}
}

// tag puts the record on the endpoint, where another machine can see it; not being permitted to is no failure.
func (v *Variant) tag(ctx context.Context, rec artifact.Freeze) {
	s, err := v.describe(ctx)
	if err == nil {
		_, err = v.sagemaker.AddTags(ctx, &sagemaker.AddTagsInput{
			ResourceArn: s.EndpointArn,
			Tags:        []sm.Tag{{Key: aws.String(freeze.TagKey), Value: aws.String(freeze.Tag(rec, len(s.ProductionVariants)-1))}},
		})
	}
	if err != nil {
		v.Note(fmt.Sprintf("the endpoint could not be tagged with the freeze record, only this machine knows of it: %v", plain(err)))
	}
}

// untag takes the record off the endpoint, if it is there.
func (v *Variant) untag(ctx context.Context, arn string) {
	tags, err := v.tags(ctx, arn)
	if err != nil {
		return // then it could not be tagged either, or the next run says what it sees
	}
	if _, tagged := tags[freeze.TagKey]; !tagged {
		return
	}
	if _, err := v.sagemaker.DeleteTags(ctx, &sagemaker.DeleteTagsInput{ResourceArn: &arn, TagKeys: []string{freeze.TagKey}}); err != nil {
		v.Note(fmt.Sprintf("everything is put back, but the tag %s could not be removed: %v: remove it, or the next run will refuse", freeze.TagKey, plain(err)))
	}
}

// cause is why ctx ended when that is what err is about.
func cause(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// backoff is the pauses between looks: half as long again each time, up to most.
type backoff struct{ next, most time.Duration }

func (b *backoff) pause(ctx context.Context) error {
	timer := time.NewTimer(b.next)
	defer timer.Stop()
	b.next = min(b.next*3/2, b.most)
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
