( set -e
aws application-autoscaling register-scalable-target \
  --cli-input-json '{"MaxCapacity":483,"MinCapacity":1,"ResourceId":"endpoint/speech-kokoro-82m/variant/primary","ScalableDimension":"sagemaker:variant:DesiredInstanceCount","ServiceNamespace":"sagemaker"}'
aws application-autoscaling put-scaling-policy \
  --cli-input-json '{"PolicyName":"loadline-rate","PolicyType":"TargetTrackingScaling","ResourceId":"endpoint/speech-kokoro-82m/variant/primary","ScalableDimension":"sagemaker:variant:DesiredInstanceCount","ServiceNamespace":"sagemaker","TargetTrackingScalingPolicyConfiguration":{"DisableScaleIn":false,"PredefinedMetricSpecification":{"PredefinedMetricType":"SageMakerVariantInvocationsPerInstance"},"ScaleInCooldown":1410,"ScaleOutCooldown":261,"TargetValue":776.6}}'
policy_arn_2="$(aws application-autoscaling put-scaling-policy \
  --cli-input-json '{"PolicyName":"loadline-concurrency-out","PolicyType":"StepScaling","ResourceId":"endpoint/speech-kokoro-82m/variant/primary","ScalableDimension":"sagemaker:variant:DesiredInstanceCount","ServiceNamespace":"sagemaker","StepScalingPolicyConfiguration":{"AdjustmentType":"PercentChangeInCapacity","Cooldown":261,"MetricAggregationType":"Maximum","StepAdjustments":[{"MetricIntervalLowerBound":0,"ScalingAdjustment":25}]}}' --query PolicyARN --output text)"
aws cloudwatch put-metric-alarm \
  --cli-input-json '{"AlarmName":"speech-kokoro-82m-primary-loadline-concurrency-out","ComparisonOperator":"GreaterThanThreshold","DatapointsToAlarm":3,"Dimensions":[{"Name":"EndpointName","Value":"speech-kokoro-82m"},{"Name":"VariantName","Value":"primary"}],"EvaluationPeriods":3,"MetricName":"ConcurrentRequestsPerModel","Namespace":"AWS/SageMaker","Period":10,"Statistic":"Maximum","Threshold":21,"TreatMissingData":"notBreaching"}' --alarm-actions "$policy_arn_2"
aws cloudwatch put-metric-alarm \
  --cli-input-json '{"AlarmName":"speech-kokoro-82m-primary-service-time","ComparisonOperator":"GreaterThanThreshold","DatapointsToAlarm":2,"Dimensions":[{"Name":"EndpointName","Value":"speech-kokoro-82m"},{"Name":"VariantName","Value":"primary"}],"EvaluationPeriods":3,"ExtendedStatistic":"p95","MetricName":"ServiceTime","Namespace":"Loadline/Speech","Period":60,"Threshold":66.13509664312005,"TreatMissingData":"notBreaching","Unit":"Milliseconds"}'
)
