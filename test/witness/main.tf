# What a team deploys with Terraform: role, model, configuration, endpoint, scaling, alarm, dashboard, log group.

terraform {
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "5.100.0"
    }
  }
}

variable "url" {
  type = string
}

provider "aws" {
  region     = "us-east-1"
  access_key = "AKIDEXAMPLE"
  secret_key = "secret"

  skip_credentials_validation = true
  skip_metadata_api_check     = true

  endpoints {
    sagemaker      = var.url
    appautoscaling = var.url
    cloudwatch     = var.url
    cloudwatchlogs = var.url
    iam            = var.url
    sts            = var.url
    servicequotas  = var.url
  }

  default_tags {
    tags = { team = "voice" }
  }
}

data "aws_caller_identity" "me" {}

resource "aws_iam_role" "speech" {
  name = "speech"
  assume_role_policy = jsonencode({
    Version   = "2012-10-17"
    Statement = [{ Effect = "Allow", Action = "sts:AssumeRole", Principal = { Service = "sagemaker.amazonaws.com" } }]
  })
}

resource "aws_iam_role_policy" "speech" {
  name = "logs"
  role = aws_iam_role.speech.id
  policy = jsonencode({
    Version   = "2012-10-17"
    Statement = [{ Effect = "Allow", Action = ["logs:CreateLogStream", "logs:PutLogEvents"], Resource = "*" }]
  })
}

resource "aws_iam_policy" "read" {
  name = "read"
  policy = jsonencode({
    Version   = "2012-10-17"
    Statement = [{ Effect = "Allow", Action = "s3:GetObject", Resource = "*" }]
  })
}

resource "aws_iam_role_policy_attachment" "read" {
  role       = aws_iam_role.speech.name
  policy_arn = aws_iam_policy.read.arn
}

resource "aws_sagemaker_model" "speech" {
  name               = "speech"
  execution_role_arn = aws_iam_role.speech.arn
  primary_container {
    image       = "${data.aws_caller_identity.me.account_id}.dkr.ecr.us-east-1.amazonaws.com/speech:latest"
    environment = { MAX_QUEUE_DEPTH = "50" }
  }
}

resource "aws_sagemaker_endpoint_configuration" "speech" {
  name = "speech"
  production_variants {
    variant_name           = "primary"
    model_name             = aws_sagemaker_model.speech.name
    instance_type          = "ml.g5.xlarge"
    initial_instance_count = 1
    routing_config {
      routing_strategy = "LEAST_OUTSTANDING_REQUESTS"
    }
    container_startup_health_check_timeout_in_seconds = 600
  }
}

resource "aws_sagemaker_endpoint" "speech" {
  name                 = "speech"
  endpoint_config_name = aws_sagemaker_endpoint_configuration.speech.name
}

resource "aws_appautoscaling_target" "speech" {
  service_namespace  = "sagemaker"
  resource_id        = "endpoint/${aws_sagemaker_endpoint.speech.name}/variant/primary"
  scalable_dimension = "sagemaker:variant:DesiredInstanceCount"
  min_capacity       = 1
  max_capacity       = 9
}

resource "aws_appautoscaling_policy" "track" {
  name               = "track"
  policy_type        = "TargetTrackingScaling"
  service_namespace  = aws_appautoscaling_target.speech.service_namespace
  resource_id        = aws_appautoscaling_target.speech.resource_id
  scalable_dimension = aws_appautoscaling_target.speech.scalable_dimension
  target_tracking_scaling_policy_configuration {
    target_value       = 37.5
    scale_in_cooldown  = 300
    scale_out_cooldown = 60
    disable_scale_in   = true
    predefined_metric_specification {
      predefined_metric_type = "SageMakerVariantConcurrentRequestsPerModelHighResolution"
    }
  }
}

resource "aws_appautoscaling_policy" "step" {
  name               = "step"
  policy_type        = "StepScaling"
  service_namespace  = aws_appautoscaling_target.speech.service_namespace
  resource_id        = aws_appautoscaling_target.speech.resource_id
  scalable_dimension = aws_appautoscaling_target.speech.scalable_dimension
  step_scaling_policy_configuration {
    adjustment_type         = "ChangeInCapacity"
    cooldown                = 300
    metric_aggregation_type = "Maximum"
    step_adjustment {
      metric_interval_upper_bound = 0
      scaling_adjustment          = -1
    }
  }
}

resource "aws_appautoscaling_scheduled_action" "dawn" {
  name               = "dawn"
  service_namespace  = aws_appautoscaling_target.speech.service_namespace
  resource_id        = aws_appautoscaling_target.speech.resource_id
  scalable_dimension = aws_appautoscaling_target.speech.scalable_dimension
  schedule           = "cron(0 6 * * ? *)"
  timezone           = "Europe/Berlin"
  scalable_target_action {
    min_capacity = 1
    max_capacity = 9
  }
}

resource "aws_cloudwatch_metric_alarm" "idle" {
  alarm_name          = "speech-idle"
  alarm_description   = "Few streams: one instance less."
  namespace           = "AWS/SageMaker"
  metric_name         = "ConcurrentRequestsPerModel"
  statistic           = "Maximum"
  period              = 60
  evaluation_periods  = 3
  datapoints_to_alarm = 3
  threshold           = 25
  comparison_operator = "LessThanOrEqualToThreshold"
  treat_missing_data  = "notBreaching"
  alarm_actions       = [aws_appautoscaling_policy.step.arn]
  dimensions          = { EndpointName = aws_sagemaker_endpoint.speech.name, VariantName = "primary" }
}

resource "aws_cloudwatch_dashboard" "speech" {
  dashboard_name = "speech"
  dashboard_body = jsonencode({ widgets = [{ type = "text", x = 0, y = 0, width = 6, height = 3, properties = { markdown = "speech" } }] })
}

resource "aws_cloudwatch_log_group" "speech" {
  name              = "/speech/app"
  retention_in_days = 14
}
