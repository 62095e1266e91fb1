package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// TestIAM: every purpose prints a policy that IAM reads, nothing in it is a wildcard of actions, and reading writes nothing.
func TestIAM(t *testing.T) {
	for _, purpose := range purposes {
		text, err := iamPolicy(purpose, "tts", "eu-west-1", "123456789012")
		if err != nil {
			t.Fatal(err)
		}
		var doc struct {
			Version   string
			Statement []struct {
				Sid, Effect string
				Action      []string
				Resource    any
			}
		}
		if err := json.Unmarshal([]byte(text), &doc); err != nil || doc.Version != "2012-10-17" || len(doc.Statement) == 0 {
			t.Fatalf("%s: %v", purpose, err)
		}
		var sids []string
		for _, s := range doc.Statement {
			if slices.Contains(sids, s.Sid) || s.Effect != "Allow" || s.Resource == nil {
				t.Errorf("%s: statement %+v", purpose, s)
			}
			sids = append(sids, s.Sid)
			for _, action := range s.Action {
				service, name, ok := strings.Cut(action, ":")
				if !ok || service == "" || strings.Contains(action, "*") {
					t.Errorf("%s allows %s", purpose, action)
				}
				reads := strings.HasPrefix(name, "Describe") || strings.HasPrefix(name, "List") || strings.HasPrefix(name, "Get")
				if purpose == "reading" && !reads {
					t.Errorf("reading allows %s", action)
				}
			}
		}
	}
}
