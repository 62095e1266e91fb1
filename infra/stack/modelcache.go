package stack

import (
	_ "embed"

	"loadline/internal/registry"
)

// syncSpec fetches the files of one model at one revision, checks them and lays them into the bucket; it tells
// CloudFormation how that went.
//
//go:embed sync.yaml
var syncSpec string

// syncStart starts that build when CloudFormation asks for it.
//
//go:embed sync.py
var syncStart string

// modelCache is the weights: fetched when revision or hash change, and never by an endpoint.
func modelCache(s scope, all []registry.Model) {
	weights := subWith("arn:${AWS::Partition}:s3:::${Bucket}/weights/*", object{"Bucket": shared("WeightsBucket")})
	logs, write := s.logs("SyncLogs", "/aws/codebuild/loadline-weights", shared("KeyArn"))
	role := s.role("SyncRole", "codebuild.amazonaws.com", "Fetches model weights into the bucket.",
		write,
		allow([]string{"s3:PutObject"}, weights),
		allow([]string{"kms:Decrypt", "kms:GenerateDataKey"}, shared("KeyArn")),
	)
	project := s.add("Sync", "AWS::CodeBuild::Project", object{
		"Description": "Fetches model weights at a pinned revision, checks them and keeps them in the bucket.",
		"Artifacts":   object{"Type": "NO_ARTIFACTS"}, "ServiceRole": role.att("Arn"), "EncryptionKey": shared("KeyArn"), "TimeoutInMinutes": 50,
		"Source": object{"Type": "NO_SOURCE", "BuildSpec": syncSpec},
		"Environment": object{"Type": "LINUX_CONTAINER", "ComputeType": "BUILD_GENERAL1_MEDIUM", "Image": "aws/codebuild/standard:7.0",
			"EnvironmentVariables": list{object{"Name": "BUCKET", "Type": "PLAINTEXT", "Value": shared("WeightsBucket")}}},
		"LogsConfig": object{"CloudWatchLogs": object{"Status": "ENABLED", "GroupName": logs.ref()}},
	})
	starting, write := s.logs("StartLogs", "/aws/lambda/loadline-weights", shared("KeyArn"))
	start := s.add("Start", "AWS::Lambda::Function", object{
		"Description": "Starts the sync when a stack asks for other weights.", "Runtime": "python3.13", "Handler": "index.handler", "Timeout": 60, "MemorySize": 128,
		"Code":        object{"ZipFile": syncStart},
		"Role":        s.role("StartRole", "lambda.amazonaws.com", "Starts the weights sync.", write, allow([]string{"codebuild:StartBuild"}, project.att("Arn"))).att("Arn"),
		"Environment": object{"Variables": object{"PROJECT": project.ref()}}, "LoggingConfig": object{"LogGroup": starting.ref()},
	})
	for _, m := range all {
		if !Pinned(m) {
			continue
		}
		s.add("Weights"+logicalID(m.Name), "Custom::SpeechWeights", object{"ServiceToken": start.att("Arn"), "ServiceTimeout": 3600,
			"Model": m.Name, "Repo": m.Weights.Repo, "Revision": m.Weights.Revision, "SHA256": m.Weights.SHA256})
	}
}

// weightsPrefix is where the weights of a model lie in the bucket.
func weightsPrefix(m registry.Model) string {
	return "weights/" + m.Name + "/" + m.Weights.Revision + "/"
}
