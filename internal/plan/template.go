package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
)

// template is the requests as a CloudFormation template: its properties have the names of the API's members. A count is in
// none of them, so that a deployment never sets a live fleet back.
func template(r Requests) (string, error) {
	resources := map[string]any{"ScalableTarget": map[string]any{"Type": "AWS::ApplicationAutoScaling::ScalableTarget", "Properties": r.Target}}
	ids := map[string]string{} // of policies, by name
	for _, p := range r.Policies {
		properties := maps.Clone(p.(map[string]any))
		for _, name := range []string{"ServiceNamespace", "ResourceId", "ScalableDimension"} {
			delete(properties, name)
		}
		properties["ScalingTargetId"] = map[string]any{"Ref": "ScalableTarget"}
		name := properties["PolicyName"].(string)
		ids[name] = logical(name, resources)
		resources[ids[name]] = map[string]any{"Type": "AWS::ApplicationAutoScaling::ScalingPolicy", "Properties": properties}
	}
	for _, a := range r.Alarms {
		properties := maps.Clone(a.Request)
		if id := ids[a.Policy]; id != "" {
			properties["AlarmActions"] = []any{map[string]any{"Ref": id}}
		}
		resources[logical("alarm-"+properties["AlarmName"].(string), resources)] = map[string]any{"Type": "AWS::CloudWatch::Alarm", "Properties": properties}
	}
	data, err := json.MarshalIndent(map[string]any{"AWSTemplateFormatVersion": "2010-09-09",
		"Description": "Scaling of " + r.Target["ResourceId"].(string) + ", as planned by tts-bench plan", "Resources": resources}, "", "  ")
	if err != nil {
		return "", fmt.Errorf("print the template: %w", err)
	}
	return string(data) + "\n", nil
}

// logical is a name as a logical id that nothing else has: letters and digits, each part with a capital.
func logical(name string, taken map[string]any) string {
	var b strings.Builder
	for part := range strings.FieldsFuncSeq(name, func(r rune) bool { return !letter(r) }) {
		b.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	id := b.String()
	for n := 2; ; n++ {
		if _, ok := taken[id]; !ok {
			return id
		}
		id = fmt.Sprintf("%s%d", b.String(), n)
	}
}

func letter(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}
