package traffic

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log"
	"math/big"
	"net"
	"net/http"
	"time"
)

// connStreams is how many streams a caller may have on one connection; load balancers in front of HTTP/2 allow as many.
const connStreams = 128

// Door is where bidirectional streams come in, as in AWS one of its own: HTTP/2 over TLS.
type Door struct {
	Listener    net.Listener
	Certificate []byte // in PEM; whoever trusts it can come in
	cert        tls.Certificate
}

// OpenDoor listens at a loopback address, with a certificate made for it.
func OpenDoor(addr string) (*Door, error) {
	cert, pem, err := newCertificate(time.Now()) // its callers go by the machine's clock
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	return &Door{ln, pem, cert}, nil
}

// URL is where it is.
func (d *Door) URL() string { return "https://" + d.Listener.Addr().String() }

// Server serves what comes in.
func (d *Door) Server(h http.Handler, log *log.Logger) *http.Server {
	s := &http.Server{ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, ErrorLog: log, Protocols: new(http.Protocols), Handler: h,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{d.cert}, MinVersion: tls.VersionTLS12},
		HTTP2:     &http.HTTP2Config{MaxConcurrentStreams: connStreams}}
	s.Protocols.SetHTTP2(true)
	return s
}

// newCertificate makes a key and a certificate for loopback, signed by itself: a client trusts it as its own authority.
func newCertificate(now time.Time) (cert tls.Certificate, text []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return cert, nil, fmt.Errorf("make a key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return cert, nil, fmt.Errorf("make a certificate: %w", err)
	}
	t := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "sagemaker-local"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, IsCA: true,
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return cert, nil, fmt.Errorf("make a certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}
