package stack

import (
	"slices"
	"strings"

	"loadline/internal/registry"
)

// foundation is what every endpoint shares. What holds data (the key, the weights, the images) stays when the stack goes.
func foundation(s scope, set Settings, all []registry.Model) {
	key := s.key()
	bucket := s.bucket(key)
	repository := s.add("Repository", "AWS::ECR::Repository", object{
		"ImageTagMutability": "IMMUTABLE", "ImageScanningConfiguration": object{"ScanOnPush": true},
		"EncryptionConfiguration": object{"EncryptionType": "AES256"},
		"LifecyclePolicy":         object{"LifecyclePolicyText": expireUntagged}, // what is deployed is tagged, and a tag never moves
	}).keep()

	weights := subWith("${Bucket}/weights/*", object{"Bucket": bucket.att("Arn")})
	execution := s.role("ExecutionRole", "sagemaker.amazonaws.com", "Runs the speech containers: reads their image and weights, writes their logs.",
		allow([]string{"logs:CreateLogGroup", "logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"},
			sub("arn:${AWS::Partition}:logs:${AWS::Region}:${AWS::AccountId}:log-group:/aws/sagemaker/Endpoints/*")),
		allow([]string{"ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"}, append(list{repository.att("Arn")}, otherRepositories(all)...)...),
		allow([]string{"ecr:GetAuthorizationToken"}, "*"), // takes no resource
		allow([]string{"s3:GetObject"}, weights),
		where(allow([]string{"s3:ListBucket"}, bucket.att("Arn")), object{"StringLike": object{"s3:prefix": list{"weights/*"}}}),
		allow([]string{"kms:Decrypt"}, key.att("Arn")),
	)
	topic := s.topic(key, set)
	s.clients(set, all)
	s.imageBuild(key, bucket, repository)

	s.export("KeyArn", key.att("Arn"))
	s.export("WeightsBucket", bucket.ref())
	s.export("RepositoryUri", repository.att("RepositoryUri"))
	s.export("ExecutionRoleArn", execution.att("Arn"))
	s.export("AlarmTopicArn", topic.ref())
}

const expireUntagged = `{"rules":[{"rulePriority":1,"description":"left behind by a push","selection":{"tagStatus":"untagged","countType":"sinceImagePushed","countUnit":"days","countNumber":30},"action":{"type":"expire"}}]}`

// key encrypts weights, logs and notifications. Its policy is the account's own administrators', by IAM, and that of the
// services which write with it.
func (s scope) key() resource {
	publishes := func(service string) object {
		return object{"Effect": "Allow", "Principal": object{"Service": service}, "Action": list{"kms:Decrypt", "kms:GenerateDataKey"}, "Resource": "*"}
	}
	return s.add("Key", "AWS::KMS::Key", object{
		"Description": "Loadline: weights, build logs and alarm notifications of speech endpoints", "EnableKeyRotation": true,
		"KeyPolicy": document(
			object{"Sid": "Administration", "Effect": "Allow", "Principal": object{"AWS": sub("arn:${AWS::Partition}:iam::${AWS::AccountId}:root")}, "Action": "kms:*", "Resource": "*"},
			where(publishes("cloudwatch.amazonaws.com"), inAccount()), // without this, alarms notify nobody
			publishes("events.amazonaws.com"),                         // which does not say for whom it acts
			object{"Effect": "Allow", "Principal": object{"Service": sub("logs.${AWS::Region}.${AWS::URLSuffix}")}, "Resource": "*",
				"Action":    list{"kms:Encrypt", "kms:Decrypt", "kms:ReEncryptFrom", "kms:ReEncryptTo", "kms:GenerateDataKey", "kms:DescribeKey"},
				"Condition": object{"ArnLike": object{"kms:EncryptionContext:aws:logs:arn": sub("arn:${AWS::Partition}:logs:${AWS::Region}:${AWS::AccountId}:*")}}},
		),
	}).keep()
}

func (s scope) bucket(key resource) resource {
	bucket := s.add("Weights", "AWS::S3::Bucket", object{
		"BucketEncryption": object{"ServerSideEncryptionConfiguration": list{object{"BucketKeyEnabled": true,
			"ServerSideEncryptionByDefault": object{"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key.att("Arn")}}}},
		"PublicAccessBlockConfiguration": object{"BlockPublicAcls": true, "BlockPublicPolicy": true, "IgnorePublicAcls": true, "RestrictPublicBuckets": true},
		"OwnershipControls":              object{"Rules": list{object{"ObjectOwnership": "BucketOwnerEnforced"}}},
		"VersioningConfiguration":        object{"Status": "Enabled"},
		"LifecycleConfiguration": object{"Rules": list{object{"Id": "leftovers", "Status": "Enabled",
			"AbortIncompleteMultipartUpload": object{"DaysAfterInitiation": 7}, "NoncurrentVersionExpiration": object{"NoncurrentDays": 30}}}},
	}).keep()
	s.add("WeightsPolicy", "AWS::S3::BucketPolicy", object{"Bucket": bucket.ref(),
		"PolicyDocument": document(tlsOnly("s3:*", bucket.att("Arn"), object{"Fn::Join": list{"", list{bucket.att("Arn"), "/*"}}}))}).keep()
	return bucket
}

// otherRepositories are those that images of models.yaml come from: the foundation's own is not known by name.
func otherRepositories(all []registry.Model) list {
	var arns []string
	for _, m := range all {
		host, name, ok := strings.Cut(strings.Split(m.Image, "@")[0], "/")
		part := strings.Split(host, ".") // <account>.dkr.ecr.<region>.amazonaws.com
		if !ok || len(part) < 6 || part[1] != "dkr" || part[2] != "ecr" {
			continue
		}
		if arn := "arn:${AWS::Partition}:ecr:" + part[3] + ":" + part[0] + ":repository/" + strings.Split(name, ":")[0]; !slices.Contains(arns, arn) {
			arns = append(arns, arn)
		}
	}
	var out list
	for _, arn := range arns {
		out = append(out, sub(arn))
	}
	return out
}

// topic is where alarms tell people. Its key and its policy let the two services in that publish to it.
func (s scope) topic(key resource, set Settings) resource {
	topic := s.add("Alarms", "AWS::SNS::Topic", object{"DisplayName": "speech endpoints", "KmsMasterKeyId": key.ref()})
	publish := func(service string) object {
		return object{"Effect": "Allow", "Principal": object{"Service": service}, "Action": "sns:Publish", "Resource": topic.ref()}
	}
	s.add("AlarmsPolicy", "AWS::SNS::TopicPolicy", object{"Topics": list{topic.ref()},
		"PolicyDocument": document(where(publish("cloudwatch.amazonaws.com"), inAccount()), publish("events.amazonaws.com"), tlsOnly("sns:Publish", topic.ref()))})
	if set.AlarmEmail != "" {
		s.add("AlarmsEmail", "AWS::SNS::Subscription", object{"TopicArn": topic.ref(), "Protocol": "email", "Endpoint": set.AlarmEmail})
	}
	return topic
}

// clients is who may call the endpoints: a policy to attach to the roles that do, and a role only for principals that were
// named. The account as a whole is trusted only where that was asked for.
func (s scope) clients(set Settings, all []registry.Model) {
	var endpoints list
	for _, m := range all {
		endpoints = append(endpoints, sub("arn:${AWS::Partition}:sagemaker:${AWS::Region}:${AWS::AccountId}:endpoint/"+strings.ToLower(m.Endpoint)))
	}
	invoke := s.add("Invoke", "AWS::IAM::ManagedPolicy", object{"Description": "Calls the speech endpoints.",
		"PolicyDocument": document(allow([]string{"sagemaker:InvokeEndpoint", "sagemaker:InvokeEndpointWithBidirectionalStream", "sagemaker:InvokeEndpointWithResponseStream"}, endpoints...))})
	invoke.unknownTo("W3037") // the action of bidirectional streams
	s.export("InvokePolicyArn", invoke.ref())
	var who list
	for _, arn := range set.Clients {
		who = append(who, arn)
	}
	if set.TrustAccount {
		who = append(who, sub("arn:${AWS::Partition}:iam::${AWS::AccountId}:root"))
	}
	if len(who) == 0 {
		return
	}
	client := s.add("ClientRole", "AWS::IAM::Role", object{"Description": "Calls the speech endpoints.", "ManagedPolicyArns": list{invoke.ref()},
		"AssumeRolePolicyDocument": document(object{"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": object{"AWS": who}})})
	s.export("ClientRoleArn", client.att("Arn"))
}

// imageSpec builds an image from source/image.zip and says its digest, which is what models.yaml records.
const imageSpec = `version: 0.2
env:
  shell: bash
phases:
  build:
    commands:
      - set -euo pipefail
      - aws ecr get-login-password | docker login --username AWS --password-stdin "${REPOSITORY_URI%%/*}"
      - docker build --provenance=false --label com.amazonaws.sagemaker.capabilities.bidirectional-streaming=true --tag "$REPOSITORY_URI:$IMAGE_TAG" --file "$DOCKERFILE" .
      - case "$(docker image inspect --format '{{.Config.User}}' "$REPOSITORY_URI:$IMAGE_TAG")" in '' | root* | 0*) echo "the image runs as root; give its Dockerfile a USER"; exit 1 ;; esac
      - docker push "$REPOSITORY_URI:$IMAGE_TAG"
      - docker image inspect --format '{{index .RepoDigests 0}}' "$REPOSITORY_URI:$IMAGE_TAG"
`

// imageBuild builds images where there is no Docker: source/image.zip of the bucket becomes one in the repository.
func (s scope) imageBuild(key, bucket, repository resource) {
	logs, write := s.logs("ImageBuildLogs", "/aws/codebuild/loadline-image-build", key.att("Arn"))
	source := subWith("${Bucket}/source/*", object{"Bucket": bucket.att("Arn")})
	role := s.role("ImageBuildRole", "codebuild.amazonaws.com", "Builds speech images.",
		write,
		allow([]string{"s3:GetObject", "s3:GetObjectVersion"}, source),
		allow([]string{"kms:Decrypt", "kms:GenerateDataKey"}, key.att("Arn")),
		allow([]string{"ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:CompleteLayerUpload", "ecr:GetDownloadUrlForLayer", "ecr:InitiateLayerUpload", "ecr:PutImage", "ecr:UploadLayerPart"}, repository.att("Arn")),
		allow([]string{"ecr:GetAuthorizationToken"}, "*"), // takes no resource
	)
	project := s.add("ImageBuild", "AWS::CodeBuild::Project", object{
		"Description": "Builds source/image.zip of the weights bucket into the repository.",
		"Artifacts":   object{"Type": "NO_ARTIFACTS"}, "ServiceRole": role.att("Arn"), "EncryptionKey": key.att("Arn"), "TimeoutInMinutes": 60,
		"Source": object{"Type": "S3", "Location": subWith("${Bucket}/source/image.zip", object{"Bucket": bucket.ref()}), "BuildSpec": imageSpec},
		"Environment": object{"Type": "LINUX_CONTAINER", "ComputeType": "BUILD_GENERAL1_LARGE", "Image": "aws/codebuild/standard:7.0", "PrivilegedMode": true, // docker needs it
			"EnvironmentVariables": list{
				object{"Name": "REPOSITORY_URI", "Type": "PLAINTEXT", "Value": repository.att("RepositoryUri")},
				object{"Name": "IMAGE_TAG", "Type": "PLAINTEXT", "Value": "untitled"},
				object{"Name": "DOCKERFILE", "Type": "PLAINTEXT", "Value": "Dockerfile"},
			}},
		"LogsConfig": object{"CloudWatchLogs": object{"Status": "ENABLED", "GroupName": logs.ref()}},
	})
	s.export("ImageBuildProject", project.ref())
}
