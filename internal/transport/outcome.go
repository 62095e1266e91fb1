package transport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"unicode/utf8"

	"loadline/internal/sample"
)

// Stopped is the cause of a request that was given up because the run ended, not because of its deadline.
const Stopped = "the run was stopped before the reply ended"

// broken classifies an exchange that broke off with err, having come as far as it says. Causes carry no addresses or
// ports, so that equal failures have equal causes.
func broken(ctx context.Context, err error, far string) (sample.Outcome, string) {
	var (
		dns     *net.DNSError
		op      *net.OpError
		timeout interface{ Timeout() bool }
	)
	text := err.Error()
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return sample.Timeout, "the deadline passed " + far
	case ctx.Err() != nil:
		return sample.ClientFault, Stopped
	case errors.Is(err, errSink):
		return sample.ClientFault, text
	case errors.As(err, new(unsigned)):
		return sample.ClientFault, "the request was never sent: " + clean(lastPart(text))
	case errors.Is(err, errFrame):
		return sample.ProtocolError, clean(text)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return sample.ClientFault, "cannot assign requested address: this machine has no free local port for the server: let connections be reused, or widen net.ipv4.ip_local_port_range"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return sample.ClientFault, "too many open files: raise the limit (ulimit -n) above twice the number of streams"
	case errors.Is(err, syscall.ENOBUFS), errors.Is(err, syscall.ENOMEM):
		return sample.ClientFault, "no memory for a socket: raise the machine's socket memory or send fewer streams"
	case errors.As(err, &dns):
		return sample.ClientFault, fmt.Sprintf("cannot resolve %s: %s: check the name and the resolver", dns.Name, dns.Err)
	case strings.Contains(text, "tls: ") || strings.Contains(text, "x509: "):
		return sample.ClientFault, "TLS: " + clean(lastPart(text)) + ": check the scheme and the certificates"
	case errors.As(err, &op) && op.Op == "dial" && op.Timeout():
		return sample.ClientFault, "no connection within the dial timeout: check the address and what filters it"
	case errors.Is(err, syscall.ECONNREFUSED):
		return sample.ServerError, "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return sample.ServerError, "connection reset by the server " + far
	case errors.Is(err, io.ErrUnexpectedEOF):
		if far == beforeReply {
			return sample.ServerError, "the server closed the connection without a reply"
		}
		return sample.Truncated, "truncated: the reply ended without its end, " + far
	case errors.Is(err, io.EOF), strings.Contains(text, "server closed idle connection"), strings.Contains(text, "EOF"):
		return sample.ServerError, "the server closed the connection without a reply"
	case strings.Contains(text, "malformed"), strings.Contains(text, "invalid"), strings.Contains(text, "PROTOCOL_ERROR"), strings.Contains(text, "frame"):
		return sample.ProtocolError, "not HTTP as agreed: " + clean(lastPart(text))
	case errors.As(err, &timeout) && timeout.Timeout():
		return sample.ServerError, "timed out below the request: " + clean(lastPart(text))
	default:
		return sample.ServerError, clean(lastPart(text))
	}
}

// refused classifies a reply whose status is not 2xx. The body may be JSON that names a stable code.
func refused(status int, body []byte, location string) (sample.Outcome, string) {
	code, message := errorBody(body)
	why := fmt.Sprintf("%d %s", status, strings.ToLower(http.StatusText(status)))
	switch {
	case code != "" && message != "":
		why += ": " + code + ": " + message
	case code != "" || message != "":
		why += ": " + code + message
	}
	switch {
	case status == 503 && (code == "queue_saturated" || code == "queue_full"):
		return sample.Rejected, code
	case status == 408:
		return sample.Stale, why
	case status == 429:
		return sample.Throttled, why
	case status >= 500:
		return sample.ServerError, why
	case status >= 300 && status < 400:
		return sample.ClientError, fmt.Sprintf("%d: redirected to %s: give that URL", status, RecordURL(location))
	default:
		return sample.ClientError, why
	}
}

// container classifies what a container answered, as SageMaker passes it on inside its ModelError.
func container(status int, body []byte) (sample.Outcome, string) {
	outcome, cause := refused(status, body, "")
	if outcome == sample.ServerError {
		outcome = sample.ModelError
	}
	return outcome, cause
}

// service classifies an error of the SageMaker service itself, by its code and the HTTP status, 0 where none came.
func service(code, message string, status int) (sample.Outcome, string) {
	cause := code
	if message != "" {
		cause += ": " + clean(message)
	}
	switch code {
	case "ServiceUnavailable", "InternalFailure", "InternalServerError", "InternalDependencyException", "ModelNotReadyException", "InternalStreamFailure":
		return sample.ServerError, cause
	case "ModelError", "ModelStreamError":
		return sample.ModelError, cause
	}
	switch {
	case strings.Contains(code, "Throttl"), strings.Contains(code, "TooManyRequests"), code == "RequestLimitExceeded", code == "SlowDown", status == 429:
		return sample.Throttled, cause
	case strings.Contains(code, "ExpiredToken"):
		return sample.ClientFault, cause + ": renew the credentials"
	case status >= 500:
		return sample.ServerError, cause
	}
	return sample.ClientError, cause
}

// errorBody reads the code and the message out of an error body: {"error": code, "message": …}, {"error": {"code": …,
// "message": …}}, {"detail": …}, {"code", "message"} or plain text.
func errorBody(body []byte) (code, message string) {
	var v struct {
		Error   json.RawMessage `json:"error"`
		Code    any             `json:"code"`
		Message string          `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(body, &v) != nil {
		return "", clean(string(body))
	}
	var inner struct {
		Code    any    `json:"code"`
		Message string `json:"message"`
		Type    string `json:"type"`
	}
	message = v.Message
	switch {
	case json.Unmarshal(v.Error, &code) == nil:
	case json.Unmarshal(v.Error, &inner) == nil:
		code, message = asText(inner.Code), inner.Message
		if code == "" {
			code = inner.Type
		}
	default:
		code = asText(v.Code)
	}
	if message == "" && len(v.Detail) > 0 {
		if json.Unmarshal(v.Detail, &message) != nil {
			message = string(v.Detail)
		}
	}
	return clean(code), clean(message)
}

func asText(v any) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

// clean makes a foreign text fit for a cause: one line, printable, short.
func clean(s string) string {
	const most = 160
	s = strings.ToValidUTF8(s, "?")
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7F }), " ")
	if len(s) <= most {
		return s
	}
	cut := most
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

// lastPart is the innermost part of a wrapped error's text, without addresses and stream numbers.
func lastPart(s string) string {
	from := 0
	for _, mark := range []string{"http: ", "http2: ", "tls: ", "x509: "} {
		if i := strings.LastIndex(s, mark); i >= 0 {
			from = max(from, i+len(mark))
		}
	}
	s = s[from:]
	if before, after, ok := strings.Cut(s, "stream ID "); ok {
		_, after, _ = strings.Cut(after, "; ")
		s = before + after
	}
	if i := strings.LastIndex(s, ": "); i >= 0 && strings.Contains(s[:i], "->") {
		s = s[i+2:]
	}
	return s
}
