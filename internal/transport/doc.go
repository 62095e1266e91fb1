// Package transport sends one request and reads its reply to the end, for a SageMaker endpoint (response stream, whole
// response or bidirectional stream), for any server that streams its reply over HTTP, as it is or in server-sent events,
// and for servers that speak over WebSockets. It stamps each moment of the request as it passes and says how it ended.
//
// What a body was is decided by package audio, what the moments mean by package sample's readers; when requests are sent
// is up to package load, whose Transport these are:
//
//	t, err := transport.NewHTTP(transport.HTTPOptions{URL: "http://127.0.0.1:8080/speak"})
//	rec := sample.New(0)
//	t.Do(ctx, load.Call{Text: corpus.At(0), Clock: clock}, &rec)
//
// Nothing is retried, but a request that met a connection which the server closed after a long rest (see direct). HTTP/1.1
// is spoken on the goroutine of Do; HTTP/2, proxies and a limit on connections are net/http's. Every stamp is taken right
// after the read that brought the bytes, before they are looked at.
package transport
