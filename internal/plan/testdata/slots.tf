# Scaling of endpoint/speech-kokoro-82m/variant/primary, as planned by tts-bench plan.

resource "aws_appautoscaling_target" "loadline" {
  service_namespace  = "sagemaker"
  resource_id        = "endpoint/speech-kokoro-82m/variant/primary"
  scalable_dimension = "sagemaker:variant:DesiredInstanceCount"
  min_capacity       = 1
  max_capacity       = 9
}

resource "aws_appautoscaling_policy" "loadline-concurrency-out" {
  name               = "loadline-concurrency-out"
  service_namespace  = aws_appautoscaling_target.loadline.service_namespace
  resource_id        = aws_appautoscaling_target.loadline.resource_id
  scalable_dimension = aws_appautoscaling_target.loadline.scalable_dimension
  policy_type        = "TargetTrackingScaling"
  target_tracking_scaling_policy_configuration {
    target_value       = 37.5
    disable_scale_in   = true
    scale_out_cooldown = 30
    scale_in_cooldown  = 960
    predefined_metric_specification {
      predefined_metric_type = "SageMakerVariantConcurrentRequestsPerModelHighResolution"
    }
  }
}

resource "aws_appautoscaling_policy" "loadline-concurrency-in" {
  name               = "loadline-concurrency-in"
  service_namespace  = aws_appautoscaling_target.loadline.service_namespace
  resource_id        = aws_appautoscaling_target.loadline.resource_id
  scalable_dimension = aws_appautoscaling_target.loadline.scalable_dimension
  policy_type        = "StepScaling"
  step_scaling_policy_configuration {
    adjustment_type         = "ChangeInCapacity"
    metric_aggregation_type = "Maximum"
    cooldown                = 960
    step_adjustment {
      scaling_adjustment          = -1
      metric_interval_upper_bound = 0
    }
  }
}

resource "aws_cloudwatch_metric_alarm" "speech-kokoro-82m-primary-loadline-concurrency-in" {
  alarm_name          = "speech-kokoro-82m-primary-loadline-concurrency-in"
  namespace           = "AWS/SageMaker"
  metric_name         = "ConcurrentRequestsPerModel"
  statistic           = "Maximum"
  period              = 60
  evaluation_periods  = 3
  datapoints_to_alarm = 3
  threshold           = 25
  comparison_operator = "LessThanOrEqualToThreshold"
  treat_missing_data  = "notBreaching"
  dimensions = {
    EndpointName = "speech-kokoro-82m"
    VariantName  = "primary"
  }
  alarm_actions = [aws_appautoscaling_policy.loadline-concurrency-in.arn]
}

resource "aws_cloudwatch_metric_alarm" "speech-kokoro-82m-primary-service-time" {
  alarm_name          = "speech-kokoro-82m-primary-service-time"
  namespace           = "Loadline/Speech"
  metric_name         = "ServiceTime"
  extended_statistic  = "p95"
  unit                = "Milliseconds"
  period              = 60
  evaluation_periods  = 3
  datapoints_to_alarm = 2
  threshold           = 66.13509664312005
  comparison_operator = "GreaterThanThreshold"
  treat_missing_data  = "notBreaching"
  dimensions = {
    EndpointName = "speech-kokoro-82m"
    VariantName  = "primary"
  }
}
