package main

import (
	"strings"
	"testing"

	"loadline/internal/transport"
)

// TestConnects: a short line before a measurement, and all of it in the record (case B7).
func TestConnects(t *testing.T) {
	tr, err := transport.NewHTTP(transport.HTTPOptions{URL: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	settings := map[string]any{}
	line := connects(settings, tr)
	if line != "connections: HTTP/1.1, one connection a stream (all of it: settings.connections of the record)" {
		t.Error(line)
	}
	if all, _ := settings["connections"].(string); all != tr.Policy() || !strings.Contains(all, "resolved anew") {
		t.Error(all)
	}
}
