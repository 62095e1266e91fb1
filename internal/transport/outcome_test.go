package transport

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"loadline/internal/sample"
)

type slow struct{}

func (slow) Error() string   { return "i/o timeout" }
func (slow) Timeout() bool   { return true }
func (slow) Temporary() bool { return true }

func TestBroken(t *testing.T) {
	op := func(what string, err error) error {
		return &net.OpError{Op: what, Net: "tcp", Source: &net.TCPAddr{Port: 40001}, Addr: &net.TCPAddr{Port: 80}, Err: err}
	}
	sys := func(call string, n syscall.Errno) error { return os.NewSyscallError(call, n) }
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	over, stop := context.WithCancel(t.Context())
	stop()
	for _, tc := range []struct {
		name    string
		ctx     context.Context
		err     error
		far     string
		outcome sample.Outcome
		cause   string // begins with it
	}{
		{"deadline", late, context.DeadlineExceeded, beforeReply, sample.Timeout, "the deadline passed before the reply began"},
		{"deadline shown as a closed connection", late, op("read", net.ErrClosed), midReply, sample.Timeout, "the deadline passed in the middle of the reply"},
		{"stopped", over, context.Canceled, midReply, sample.ClientFault, Stopped},
		{"no port left", t.Context(), op("dial", sys("connect", syscall.EADDRNOTAVAIL)), beforeConn, sample.ClientFault, "cannot assign requested address: "},
		{"no file left", t.Context(), op("dial", sys("socket", syscall.EMFILE)), beforeConn, sample.ClientFault, "too many open files: raise the limit"},
		{"no file left in the system", t.Context(), op("dial", sys("socket", syscall.ENFILE)), beforeConn, sample.ClientFault, "too many open files: raise the limit"},
		{"no socket memory", t.Context(), op("write", sys("write", syscall.ENOBUFS)), beforeReply, sample.ClientFault, "no memory for a socket"},
		{"dial timeout", t.Context(), op("dial", slow{}), beforeConn, sample.ClientFault, "no connection within the dial timeout"},
		{"no such name", t.Context(), op("dial", &net.DNSError{Name: "x.invalid", Err: "no such host"}), beforeConn, sample.ClientFault, "cannot resolve x.invalid: no such host"},
		{"certificate", t.Context(), fmt.Errorf("tls: failed to verify certificate: %w", x509.UnknownAuthorityError{}), beforeConn, sample.ClientFault, "TLS: certificate signed by unknown authority"},
		{"refused", t.Context(), op("dial", sys("connect", syscall.ECONNREFUSED)), beforeConn, sample.ServerError, "connection refused"},
		{"reset", t.Context(), op("read", sys("read", syscall.ECONNRESET)), midReply, sample.ServerError, "connection reset by the server in the middle of the reply"},
		{"broken pipe", t.Context(), op("write", sys("write", syscall.EPIPE)), beforeReply, sample.ServerError, "connection reset by the server before the reply began"},
		{"end without an end", t.Context(), io.ErrUnexpectedEOF, midReply, sample.Truncated, "truncated: the reply ended without its end, in the middle of the reply"},
		{"closed before a reply", t.Context(), errors.New("http: server closed idle connection"), beforeReply, sample.ServerError, "the server closed the connection without a reply"},
		{"closed at once", t.Context(), io.EOF, beforeReply, sample.ServerError, "the server closed the connection without a reply"},
		{"headers cut", t.Context(), io.ErrUnexpectedEOF, beforeReply, sample.ServerError, "the server closed the connection without a reply"},
		{"not HTTP", t.Context(), errors.New(`net/http: HTTP/1.x transport connection broken: malformed HTTP response "SSH-2.0"`), beforeReply, sample.ProtocolError, `not HTTP as agreed: HTTP/1.x transport connection broken: malformed HTTP response "SSH-2.0"`},
		{"stream reset", t.Context(), errors.New("stream error: stream ID 3; INTERNAL_ERROR; received from peer"), midReply, sample.ServerError, "stream error: INTERNAL_ERROR; received from peer"},
		{"sink", t.Context(), fmt.Errorf("%w: disk full", errSink), midReply, sample.ClientFault, "could not save the reply: disk full"},
		{"unheard of", t.Context(), op("read", errors.New("strange")), midReply, sample.ServerError, "strange"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			outcome, cause := broken(tc.ctx, tc.err, tc.far)
			if outcome != tc.outcome || !strings.HasPrefix(cause, tc.cause) {
				t.Errorf("%s (%s), want %s (%s)", outcome, cause, tc.outcome, tc.cause)
			}
			if strings.Contains(cause, "40001") {
				t.Errorf("%q: a port makes equal failures look different", cause)
			}
		})
	}
}

func TestErrorBody(t *testing.T) {
	for _, tc := range []struct{ body, code, message string }{
		{`{"error":"queue_saturated","message":"full"}`, "queue_saturated", "full"},
		{`{"error":{"code":"queue_saturated","message":"full","retry_after":2}}`, "queue_saturated", "full"},
		{`{"error":{"message":"bad voice","type":"invalid_request_error","code":null}}`, "invalid_request_error", "bad voice"},
		{`{"detail":"Not Found"}`, "", "Not Found"},
		{`{"detail":[{"loc":["body"],"msg":"field required"}]}`, "", `[{"loc":["body"],"msg":"field required"}]`},
		{`{"code":42,"message":"x"}`, "42", "x"},
		{`{}`, "", ""},
		{`[1]`, "", "[1]"},
		{``, "", ""},
		{"Internal\r\n\tServer Error", "", "Internal Server Error"},
		{"\xff\x00", "", "?"},
	} {
		if code, message := errorBody([]byte(tc.body)); code != tc.code || message != tc.message {
			t.Errorf("%s: %q, %q; want %q, %q", tc.body, code, message, tc.code, tc.message)
		}
	}
	long := clean(strings.Repeat("é", 500))
	if len(long) > 170 || !utf8.ValidString(long) {
		t.Errorf("a long text became %q", long)
	}
}

func TestRefusedRedirect(t *testing.T) {
	outcome, cause := refused(307, nil, "https://user:secret@elsewhere.example/speak?key=1")
	if outcome != sample.ClientError || cause != "307: redirected to https://elsewhere.example/speak: give that URL" {
		t.Errorf("%s (%s)", outcome, cause)
	}
}
