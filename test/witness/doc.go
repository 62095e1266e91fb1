// Package witness asks other people's clients: the AWS CLI, boto3, Terraform and the JavaScript SDK talk to a
// sagemaker-local of this tree, and botocore's models of the services are held to its answers. A test is skipped where its
// tool is not on the machine, unless REQUIRE_AWS_TOOLS is 1.
package witness
