package stack

// allow is a statement that lets a role do what it needs on what it needs, and nothing else.
func allow(actions []string, resources ...any) object {
	return object{"Effect": "Allow", "Action": actions, "Resource": resources}
}

// where narrows a statement.
func where(statement object, condition object) object {
	statement["Condition"] = condition
	return statement
}

func document(statements ...any) object {
	return object{"Version": "2012-10-17", "Statement": statements}
}

// inAccount is the condition that a service acts for a resource of this account: without it any customer of that service
// could have it act.
func inAccount() object {
	return object{"StringEquals": object{"aws:SourceAccount": object{"Ref": "AWS::AccountId"}}}
}

// trust lets a service of AWS take a role: for this account alone, where the service says for whom it acts. Lambda does not;
// there, only who may pass the role gives it.
func trust(service string) object {
	statement := object{"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": object{"Service": service}}
	if service != "lambda.amazonaws.com" {
		statement["Condition"] = inAccount()
	}
	return document(statement)
}

// role is a role of one service, with its policy inside. It has no name of its own: a second region would not find it free.
func (s scope) role(id, service, description string, statements ...any) resource {
	return s.add(id, "AWS::IAM::Role", object{
		"AssumeRolePolicyDocument": trust(service), "Description": description,
		"Policies": list{object{"PolicyName": id, "PolicyDocument": document(statements...)}},
	})
}

// tlsOnly refuses what comes without TLS.
func tlsOnly(action string, resources ...any) object {
	return object{"Sid": "TLSOnly", "Effect": "Deny", "Principal": object{"AWS": "*"}, "Action": list{action}, "Resource": resources,
		"Condition": object{"Bool": object{"aws:SecureTransport": "false"}}}
}

// logs is a log group, encrypted and kept for a year, and the statement that lets a role write to it.
func (s scope) logs(id, name string, key any) (group resource, write object) {
	group = s.add(id, "AWS::Logs::LogGroup", object{"LogGroupName": name, "RetentionInDays": 365, "KmsKeyId": key})
	return group, allow([]string{"logs:CreateLogStream", "logs:PutLogEvents"}, group.att("Arn"))
}
