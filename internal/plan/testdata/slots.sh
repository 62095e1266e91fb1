( set -e
aws application-autoscaling register-scalable-target \
  --cli-input-json '{"MaxCapacity":9,"MinCapacity":1,"ResourceId":"endpoint/speech-kokoro-82m/variant/primary","ScalableDimension":"sagemaker:variant:DesiredInstanceCount","ServiceNamespace":"sagemaker"}'
aws application-autoscaling put-scaling-policy \
  --cli-input-json '{"PolicyName":"loadline-concurrency-out","PolicyType":"TargetTrackingScaling","ResourceId":"endpoint/speech-kokoro-82m/variant/primary","ScalableDimension":"sagemaker:variant:DesiredInstanceCount","ServiceNamespace":"sagemaker","TargetTrackingScalingPolicyConfiguration":{"DisableScaleIn":true,"PredefinedMetricSpecification":{"PredefinedMetricType":"SageMakerVariantConcurrentRequestsPerModelHighResolution"},"ScaleInCooldown":960,"ScaleOutCooldown":30,"TargetValue":37.5}}'
policy_arn_2="$(aws application-autoscaling put-scaling-policy \
  --cli-input-json '{"PolicyName":"loadline-concurrency-in","PolicyType":"StepScaling","ResourceId":"endpoint/speech-kokoro-82m/variant/primary","ScalableDimension":"sagemaker:variant:DesiredInstanceCount","ServiceNamespace":"sagemaker","StepScalingPolicyConfiguration":{"AdjustmentType":"ChangeInCapacity","Cooldown":960,"MetricAggregationType":"Maximum","StepAdjustments":[{"MetricIntervalUpperBound":0,"ScalingAdjustment":-1}]}}' --query PolicyARN --output text)"
aws cloudwatch put-metric-alarm \
  --cli-input-json '{"AlarmName":"speech-kokoro-82m-primary-loadline-concurrency-in","ComparisonOperator":"LessThanOrEqualToThreshold","DatapointsToAlarm":3,"Dimensions":[{"Name":"EndpointName","Value":"speech-kokoro-82m"},{"Name":"VariantName","Value":"primary"}],"EvaluationPeriods":3,"MetricName":"ConcurrentRequestsPerModel","Namespace":"AWS/SageMaker","Period":60,"Statistic":"Maximum","Threshold":25,"TreatMissingData":"notBreaching"}' --alarm-actions "$policy_arn_2"
aws cloudwatch put-metric-alarm \
  --cli-input-json '{"AlarmName":"speech-kokoro-82m-primary-service-time","ComparisonOperator":"GreaterThanThreshold","DatapointsToAlarm":2,"Dimensions":[{"Name":"EndpointName","Value":"speech-kokoro-82m"},{"Name":"VariantName","Value":"primary"}],"EvaluationPeriods":3,"ExtendedStatistic":"p95","MetricName":"ServiceTime","Namespace":"Loadline/Speech","Period":60,"Threshold":66.13509664312005,"TreatMissingData":"notBreaching","Unit":"Milliseconds"}'
)
